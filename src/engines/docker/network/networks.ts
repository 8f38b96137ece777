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
import { readFile } from 'node:fs/promises';
import { endianness } from 'node:os';
import { makeKeyedMutex } from '../../../async/mutex.ts';
import type { NetworkInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { userId, type UserId } from '../../../domain/kernel/ids.ts';
import { installationLabel, labels, labelsOf, networkName } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { abortFault, sentenceOf, statusOf } from '../../../docker/faults.ts';
import type { Host } from '../client/host-facts.ts';
import { listContainers } from '../container/container-calls.ts';
import type { Egress } from './egress.ts';
import { checkPool, freeSubnets, subnetsOfRoutes, type NetworkPool } from './subnets.ts';

const DEADLINE_MS = 60_000;
const MAX_TRIES = 32;

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

interface NetworksDeps {
  client: DockerClient;
  host: Host;
  installation: string;
  pool: NetworkPool;
  egress: Pick<Egress, 'cover'>;
}

export function makeNetworks(options: NetworksDeps): Networks {
  const { client, installation, pool, egress } = options;
  checkPool(pool);
  const { docker, call } = client;
  const present = new Set<UserId>();
  const users = new Map<UserId, number>();
  const mutex = makeKeyedMutex<UserId>({ abortError: abortFault });
  const createNetwork = makeNetworkCreator(options);
  const ours = installationLabel(installation);
  const ofOwner = (owner: UserId): string[] => [ours, `${labels.owner}=${owner}`];

  /** Ignores the caller's abort in `fn`: the engine would finish an aborted creation unseen. */
  const locked = (owner: UserId, signal: AbortSignal, fn: (own: AbortSignal) => Promise<void>): Promise<void> =>
    call(signal, () => {
      const own = AbortSignal.timeout(DEADLINE_MS);
      return mutex.run(owner, () => fn(own), own);
    });

  const list = (signal: AbortSignal, label = [ours]): Promise<NetworkInspectInfo[]> =>
    call(signal, (abortSignal) => docker.listNetworks({ filters: { label }, abortSignal }));

  const ensure = (owner: UserId, signal: AbortSignal): Promise<void> =>
    locked(owner, signal, async (own) => {
      if (present.has(owner)) return;
      const all = await call(own, (abortSignal) => docker.listNetworks({ abortSignal }));
      const named = all.filter(({ Name }) => Name === networkName(installation, owner));
      const foreign = named.find(({ Labels }) => Labels?.[labels.installation] !== installation);
      if (foreign !== undefined) {
        const text = `a network named ${foreign.Name} is on the host and does not belong to this installation; ask the operator to remove it`;
        throw new EngineFault('rejected', text, { retry: true, reason: 'nameTaken' });
      }
      if (named.length === 0) await createNetwork(owner, all, own);
      // Duplicates of two processes make the name ambiguous until one is gone; one in use stays.
      let remaining = named.length;
      for (const { Id } of named) if (remaining > 1 && (await removeNetwork(client, Id, own))) remaining--;
      await egress.cover(owner, true, own);
      present.add(owner);
    });

  const removeIfUnused: Networks['removeIfUnused'] = (owner, signal) =>
    locked(owner, signal, async (own) => {
      if ((users.get(owner) ?? 0) > 0) return;
      const wasPresent = present.delete(owner); // `use` now waits for the mutex, then recreates
      const [containers, mine] = await Promise.all([
        listContainers(client, ofOwner(owner), own),
        list(own, ofOwner(owner)),
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
        const text = `the network ${name} is not the network of an account of this installation, so Berth does not remove it`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      const containers = await listContainers(client, ofOwner(owner), own);
      const used = new EngineFault('busy', `the network ${name} has instances; terminate the instances first`, {
        retry: true,
      });
      if (mine.length > 0 && (containers.length > 0 || (users.get(owner) ?? 0) > 0)) throw used;
      present.delete(owner);
      for (const { Id } of mine) if (!(await removeNetwork(client, Id, own))) throw used;
    });

  return {
    async use(owner, signal, fn) {
      users.set(owner, (users.get(owner) ?? 0) + 1);
      try {
        if (present.has(owner)) await egress.cover(owner, false, signal);
        else await ensure(owner, signal);
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
      const [containers, networks] = await Promise.all([listContainers(client, [ours], signal), list(signal)]);
      const living = new Set(containers.map(({ Labels }) => Labels[labels.owner]));
      for (const { Labels } of networks) {
        const owner = Labels?.[labels.owner];
        if (owner !== undefined && !living.has(owner)) await removeIfUnused(userId(owner), signal);
      }
    },
    list: (signal) => list(signal),
  };
}

/** Creates an account's network on a free subnet. An existing name is success. */
function makeNetworkCreator({ client, host, installation, pool }: NetworksDeps) {
  /** Subnets of creations in progress. */
  const reserved = new Set<string>();

  return async (owner: UserId, existing: readonly NetworkInspectInfo[], signal: AbortSignal): Promise<void> => {
    const { podman } = await host.facts(signal);
    const used = existing.flatMap(({ IPAM }) =>
      (IPAM?.Config ?? []).flatMap(({ Subnet }) => (Subnet === undefined ? [] : [Subnet])),
    );
    const hostRoutes = client.local ? await hostSubnets() : [];
    let tries = 0;
    for (const subnet of freeSubnets(pool, owner, [...used, ...hostRoutes])) {
      if (reserved.has(subnet)) continue;
      reserved.add(subnet);
      try {
        const request = {
          Name: networkName(installation, owner),
          CheckDuplicate: true,
          Driver: 'bridge',
          // The packet filter has rules for IPv4 only.
          EnableIPv6: false,
          IPAM: { Driver: 'default', Config: [{ Subnet: subnet }] },
          Labels: labelsOf(installation, { kind: 'network', id: owner, ownerId: owner, generation: 0 }),
          // Podman isolates bridges only on request.
          ...(podman ? { Options: { isolate: 'true' } } : {}),
        };
        await client.call(signal, (abortSignal) => client.docker.createNetwork({ ...request, abortSignal }));
        return;
      } catch (error) {
        if (statusOf(error) === 409 && /already exists/i.test(sentenceOf(error))) return;
        if (!/overlap|conflicts with|is already used|already in use/i.test(sentenceOf(error)) || ++tries === MAX_TRIES)
          throw error;
      } finally {
        reserved.delete(subnet);
      }
    }
    const text =
      'the host has no address range left for another account; ask the operator to configure a larger pool of networks';
    throw new EngineFault('no_capacity', text, { retry: true });
  };
}

/** Returns false when the network is in use. Absent is success. */
async function removeNetwork({ docker, call }: DockerClient, networkId: string, signal: AbortSignal): Promise<boolean> {
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

const hostSubnets = async (): Promise<string[]> =>
  subnetsOfRoutes(await readFile('/proc/net/route', 'utf8').catch(() => ''), endianness() === 'LE');
