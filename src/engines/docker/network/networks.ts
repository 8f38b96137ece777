/**
 * # The accounts' networks
 *
 * One bridge for each account that has a container here: its instances see each other, and no other account's (Docker keeps
 * bridges apart by its packet filter). It is made before the account's first container and removed with its last, stopped
 * ones included: a stopped container can't start again once its network is gone.
 *
 * Making and removing meet in two ways. Docker lets two networks have one name, and removes a network that only stopped
 * containers are in. So whatever makes or removes an account's network holds the account's lock, and a network in `use` stays.
 */
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { readFile } from 'node:fs/promises';
import { endianness } from 'node:os';
import type { NetworkInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import { userId, type UserId } from '../../../domain/ids.ts';
import { labels, networkName } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { abortFault, sentenceOf, statusOf } from '../client/faults.ts';
import type { Host } from '../client/host.ts';
import { checkPool, freeSubnets, subnetsOfRoutes, type NetworkPool } from './subnets.ts';

const DEADLINE_MS = 60_000;

export interface Networks {
  /** Lends the account's network, made if need be, and keeps it while `work` goes on. */
  use<T>(owner: UserId, signal: AbortSignal, work: (network: string) => Promise<T>): Promise<T>;
  /** Makes it again after the engine said that it is gone. Within `use`. */
  restore(owner: UserId, signal: AbortSignal): Promise<void>;
  removeIfUnused(owner: UserId, signal: AbortSignal): Promise<void>;
  /** The same for every account: for when it is not known whose container it was. */
  removeAllUnused(signal: AbortSignal): Promise<void>;
  /** The network of that name, if it is ours, and `busy` while the account has a container: one that is stopped needs it too. */
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
  const known = new Set<UserId>();
  const users = new Map<UserId, number>();
  const mutex = makeKeyedMutex<UserId>({ abortError: abortFault });
  /** Subnets that a create of ours is on its way for. */
  const reserved = new Set<string>();
  const ours = { label: [`${labels.installation}=${installation}`] };

  /**
   * Nothing begun in here is called off half-way: the engine would go on with it unseen, and a second one made beside it. Who
   * asked stops waiting when its signal fires.
   */
  const locked = (owner: UserId, signal: AbortSignal, work: (own: AbortSignal) => Promise<void>): Promise<void> =>
    call(signal, () => {
      const own = AbortSignal.timeout(DEADLINE_MS);
      return mutex.run(owner, () => work(own), own);
    });

  const list: Networks['list'] = (signal) =>
    call(signal, (abortSignal) => docker.listNetworks({ filters: ours, abortSignal }));

  const ensure = (owner: UserId, signal: AbortSignal): Promise<void> =>
    locked(owner, signal, async (own) => {
      if (known.has(owner)) return;
      const everyone = await call(own, (abortSignal) => docker.listNetworks({ abortSignal }));
      const named = everyone.filter(({ Name }) => Name === networkName(installation, owner));
      const foreign = named.find(({ Labels }) => Labels?.[labels.installation] !== installation);
      if (foreign !== undefined) {
        const text = `a network called ${foreign.Name} is on the host and not of this installation; the operator has to remove it`;
        throw new EngineFault('rejected', text, { retry: true, reason: 'nameTaken' });
      }
      if (named.length === 0) await create(owner, everyone, own);
      // Made twice by two processes: the name is good for nothing until one is gone. One that is in use refuses to go.
      let left = named.length;
      for (const { Id } of named) if (left > 1 && (await remove(Id, own))) left--;
      known.add(owner);
    });

  async function create(owner: UserId, everyone: readonly NetworkInspectInfo[], signal: AbortSignal): Promise<void> {
    const { podman } = await host.facts(signal);
    const used = everyone.flatMap(({ IPAM }) =>
      (IPAM?.Config ?? []).flatMap(({ Subnet }) => (Subnet === undefined ? [] : [Subnet])),
    );
    const own = client.local ? await hostSubnets() : [];
    let tries = 0;
    for (const subnet of freeSubnets(pool, owner, [...used, ...own])) {
      if (reserved.has(subnet)) continue;
      reserved.add(subnet);
      try {
        const request = {
          Name: networkName(installation, owner),
          CheckDuplicate: true,
          Driver: 'bridge',
          IPAM: { Driver: 'default', Config: [{ Subnet: subnet }] },
          Labels: {
            [labels.installation]: installation,
            [labels.kind]: 'network',
            [labels.id]: owner,
            [labels.owner]: owner,
            [labels.generation]: '0',
          },
          // Podman keeps its bridges apart only when asked to.
          ...(podman ? { Options: { isolate: 'true' } } : {}),
        };
        await call(signal, (abortSignal) => docker.createNetwork({ ...request, abortSignal }));
        return;
      } catch (error) {
        if (statusOf(error) === 409 && /already exists/i.test(sentenceOf(error))) return;
        if (!/overlap|conflicts with|is already used|already in use/i.test(sentenceOf(error)) || ++tries === 32)
          throw error;
      } finally {
        reserved.delete(subnet);
      }
    }
    const text =
      'the host has no address range left for another account; the operator can name a larger pool of networks';
    throw new EngineFault('no_capacity', text, { retry: true });
  }

  /** Whether it is gone; false when it is in use. */
  async function remove(networkId: string, signal: AbortSignal): Promise<boolean> {
    try {
      const request = { abortSignal: signal };
      await call(signal, () => docker.getNetwork(networkId).remove(request));
      return true;
    } catch (error) {
      if (statusOf(error) === 404) return true;
      if (/active endpoints|in use|being used/i.test(sentenceOf(error))) return false;
      throw error;
    }
  }

  const removeIfUnused: Networks['removeIfUnused'] = (owner, signal) =>
    locked(owner, signal, async (own) => {
      if ((users.get(owner) ?? 0) > 0) return;
      const wasKnown = known.delete(owner); // from here on a `use` waits for the lock, and makes it anew
      const filters = { label: [...ours.label, `${labels.owner}=${owner}`] };
      const [containers, mine] = await Promise.all([
        call(own, (abortSignal) => docker.listContainers({ all: true, filters, abortSignal })),
        call(own, (abortSignal) => docker.listNetworks({ filters, abortSignal })),
      ]);
      if (containers.length === 0) for (const { Id } of mine) await remove(Id, own);
      // Those that are left are in it, so it stays: the next launch need not look.
      else if (wasKnown && mine.length === 1) known.add(owner);
    });

  const discard: Networks['discard'] = (name, owner, signal) =>
    locked(owner, signal, async (own) => {
      const everyone = await call(own, (abortSignal) => docker.listNetworks({ abortSignal }));
      const named = everyone.filter(({ Name }) => Name === name);
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
      known.delete(owner);
      for (const { Id } of mine) if (!(await remove(Id, own))) throw used;
    });

  return {
    async use(owner, signal, work) {
      users.set(owner, (users.get(owner) ?? 0) + 1);
      try {
        if (!known.has(owner)) await ensure(owner, signal);
        return await work(networkName(installation, owner));
      } finally {
        const rest = (users.get(owner) ?? 1) - 1;
        if (rest === 0) users.delete(owner);
        else users.set(owner, rest);
      }
    },
    restore(owner, signal) {
      known.delete(owner);
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

/** None can be told where there is no such file: on no Linux. */
const hostSubnets = async (): Promise<string[]> =>
  subnetsOfRoutes(await readFile('/proc/net/route', 'utf8').catch(() => ''), endianness() === 'LE');
