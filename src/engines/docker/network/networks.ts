/**
 * # The accounts' networks
 *
 * One bridge per account: its instances reach each other, and no other account's (Docker isolates
 * bridges by its packet filter). Created before the account's first container, removed with the
 * last, stopped ones included: a stopped container can't start without its network.
 *
 * Docker allows two networks of one name, and removes a network whose containers are all stopped.
 * So creation and removal hold the account's mutex, and a network in `use` stays.
 */
import { makeKeyedMutex } from '../../../async/mutex.ts';
import type { NetworkInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import { userId, type UserId } from '../../../domain/ids.ts';
import { labels, networkName } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { abortFault } from '../client/faults.ts';
import type { Host } from '../client/host.ts';
import { createNetwork, removeNetwork } from './network-calls.ts';
import { checkPool, type NetworkPool } from './subnets.ts';

const DEADLINE_MS = 60_000;

export interface Networks {
  /** Runs `fn` with the account's network, created on demand and not removed meanwhile. */
  use<T>(owner: UserId, signal: AbortSignal, fn: (network: string) => Promise<T>): Promise<T>;
  restore(owner: UserId, signal: AbortSignal): Promise<void>;
  removeIfUnused(owner: UserId, signal: AbortSignal): Promise<void>;
  removeAllUnused(signal: AbortSignal): Promise<void>;
  /** Removes the account's network of that name. `busy` while a container, even stopped, exists. */
  discard(name: string, owner: UserId, signal: AbortSignal): Promise<void>;
  list(signal: AbortSignal): Promise<NetworkInspectInfo[]>;
}

export function makeNetworks(options: {
  client: Client;
  host: Host;
  installation: string;
  pool: NetworkPool;
}): Networks {
  const { client, host, installation, pool } = options;
  checkPool(pool);
  const { docker, call } = client;
  const present = new Set<UserId>();
  const users = new Map<UserId, number>();
  const mutex = makeKeyedMutex<UserId>({ abortError: abortFault });
  const reserved = new Set<string>();
  const ours = { label: [`${labels.installation}=${installation}`] };

  /** Ignores the caller's abort in `fn`: the engine would finish an aborted creation unseen. */
  const locked = (owner: UserId, signal: AbortSignal, fn: (own: AbortSignal) => Promise<void>): Promise<void> =>
    call(signal, () => {
      const own = AbortSignal.timeout(DEADLINE_MS);
      return mutex.run(owner, () => fn(own), own);
    });

  const list: Networks['list'] = (signal) =>
    call(signal, (abortSignal) => docker.listNetworks({ filters: ours, abortSignal }));

  const ensure = (owner: UserId, signal: AbortSignal): Promise<void> =>
    locked(owner, signal, async (own) => {
      if (present.has(owner)) return;
      const all = await call(own, (abortSignal) => docker.listNetworks({ abortSignal }));
      const named = all.filter(({ Name }) => Name === networkName(installation, owner));
      const foreign = named.find(({ Labels }) => Labels?.[labels.installation] !== installation);
      if (foreign !== undefined) {
        const text = `a network called ${foreign.Name} is on the host and not of this installation; the operator has to remove it`;
        throw new EngineFault('rejected', text, { retry: true, reason: 'nameTaken' });
      }
      if (named.length === 0) {
        const { podman } = await host.facts(own);
        await createNetwork({ client, installation, owner, pool, existing: all, reserved, podman }, own);
      }
      // Duplicates of two processes make the name ambiguous until one is gone; one in use stays.
      let remaining = named.length;
      for (const { Id } of named) if (remaining > 1 && (await removeNetwork(client, Id, own))) remaining--;
      present.add(owner);
    });

  const removeIfUnused: Networks['removeIfUnused'] = (owner, signal) =>
    locked(owner, signal, async (own) => {
      if ((users.get(owner) ?? 0) > 0) return;
      const wasPresent = present.delete(owner); // `use` now waits for the mutex, then recreates
      const filters = { label: [...ours.label, `${labels.owner}=${owner}`] };
      const [containers, mine] = await Promise.all([
        call(own, (abortSignal) => docker.listContainers({ all: true, filters, abortSignal })),
        call(own, (abortSignal) => docker.listNetworks({ filters, abortSignal })),
      ]);
      if (containers.length === 0) for (const { Id } of mine) await removeNetwork(client, Id, own);
      else if (wasPresent && mine.length === 1) present.add(owner);
    });

  const discard: Networks['discard'] = (name, owner, signal) =>
    locked(owner, signal, async (own) => {
      const all = await call(own, (abortSignal) => docker.listNetworks({ abortSignal }));
      const named = all.filter(({ Name }) => Name === name);
      const mine = named.filter(
        ({ Labels }) => Labels?.[labels.installation] === installation && Labels[labels.owner] === owner,
      );
      if (named.length > 0 && mine.length === 0) {
        const text = `the network ${name} is not an account's of this installation, so it is not removed`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      const filters = { label: [...ours.label, `${labels.owner}=${owner}`] };
      const containers = await call(own, (abortSignal) => docker.listContainers({ all: true, filters, abortSignal }));
      const used = new EngineFault('busy', `the network ${name} has instances; terminate them first`, { retry: true });
      if (mine.length > 0 && (containers.length > 0 || (users.get(owner) ?? 0) > 0)) throw used;
      present.delete(owner);
      for (const { Id } of mine) if (!(await removeNetwork(client, Id, own))) throw used;
    });

  return {
    async use(owner, signal, fn) {
      users.set(owner, (users.get(owner) ?? 0) + 1);
      try {
        if (!present.has(owner)) await ensure(owner, signal);
        return await fn(networkName(installation, owner));
      } finally {
        const rest = (users.get(owner) ?? 1) - 1;
        if (rest === 0) users.delete(owner);
        else users.set(owner, rest);
      }
    },
    restore(owner, signal) {
      present.delete(owner);
      return ensure(owner, signal);
    },
    removeIfUnused,
    discard,
    async removeAllUnused(signal) {
      const [containers, networks] = await Promise.all([
        call(signal, (abortSignal) => docker.listContainers({ all: true, filters: ours, abortSignal })),
        list(signal),
      ]);
      const living = new Set(containers.map(({ Labels }) => Labels[labels.owner]));
      for (const { Labels } of networks) {
        const owner = Labels?.[labels.owner];
        if (owner !== undefined && !living.has(owner)) await removeIfUnused(userId(owner), signal);
      }
    },
    list,
  };
}
