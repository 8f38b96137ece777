/** Observes many instances: one list to find absent ones, then an inspect for each present one. */
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import type { Engine, Observation } from '../../contract.ts';
import { containerName, labels } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { abortFault, faultOf } from '../client/faults.ts';
import type { Containers } from './containers.ts';

/** More inspects at once are no faster. */
const INSPECTS_AT_ONCE = 8;
const LIST_FROM = 4;

export function makeObserve({
  client,
  installation,
  containers,
}: {
  client: Client;
  installation: string;
  containers: Containers;
}): Engine['observe'] {
  const inspects = makeSemaphore(INSPECTS_AT_ONCE, { abortError: abortFault });
  const filters = { label: [`${labels.installation}=${installation}`] };

  async function listNames(signal: AbortSignal): Promise<Set<string>> {
    const all = await client.call(signal, (abortSignal) =>
      client.docker.listContainers({ all: true, filters, abortSignal }),
    );
    return new Set(all.flatMap(({ Names }) => Names.map((name) => name.replace(/^\//, ''))));
  }

  async function observeOne(id: InstanceId, signal: AbortSignal): Promise<Observation> {
    try {
      return await inspects.run(() => containers.observe(id, signal), { signal });
    } catch (error) {
      return { kind: 'unknown', reason: faultOf(error).message };
    }
  }

  return async (ids, signal) => {
    let names: Set<string> | null = null;
    if (ids.length >= LIST_FROM) {
      try {
        names = await listNames(signal);
      } catch (error) {
        const reason = faultOf(error).message;
        return new Map(ids.map((id) => [id, { kind: 'unknown', reason }]));
      }
    }
    const observations = ids.map(async (id): Promise<[InstanceId, Observation]> => {
      if (names !== null && !names.has(containerName(id))) return [id, { kind: 'absent' }];
      return [id, await observeOne(id, signal)];
    });
    return new Map(await Promise.all(observations));
  };
}
