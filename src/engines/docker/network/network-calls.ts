import { readFile } from 'node:fs/promises';
import { endianness } from 'node:os';
import type { NetworkInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { UserId } from '../../../domain/ids.ts';
import { labelsOf, networkName } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { sentenceOf, statusOf } from '../client/faults.ts';
import type { Host } from '../client/host.ts';
import { freeSubnets, subnetsOfRoutes, type NetworkPool } from './subnets.ts';

const MAX_TRIES = 32;

export interface NetworkCreatorDeps {
  client: Client;
  host: Host;
  installation: string;
  pool: NetworkPool;
}

/** Creates an account's network on a free subnet. An existing name is success. */
export function makeNetworkCreator({ client, host, installation, pool }: NetworkCreatorDeps) {
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
      'the host has no address range left for another account; the operator can name a larger pool of networks';
    throw new EngineFault('no_capacity', text, { retry: true });
  };
}

/** Returns false when the network is in use. Absent is success. */
export async function removeNetwork(
  { docker, call }: Client,
  networkId: string,
  signal: AbortSignal,
): Promise<boolean> {
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
