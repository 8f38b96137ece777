/**
 * Observations. Few instances are read by name; many share two lists, also those that are asked for
 * by different callers at the same time.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { raceAbort } from '../../async/abort.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import type { Pod, StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Engine, Observation } from '../contract.ts';
import { ownPod, ownSet, type ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import { isOwned, objectName, ownedSelector, podName } from './manifests/object-names.ts';
import { observationOf } from './state/run-state.ts';

/** More are read by lists, which cost more for few, the more the longer they are. */
const MAX_BY_NAME = 4;
const SHARE_BY_NAME = 0.1;
/** Callers join for this time, and until the read before theirs has ended. */
const JOIN_MS = 5;
const LIST_MS = 30_000;

interface Lists {
  sets: Map<string | undefined, StatefulSet>;
  pods: Map<string | undefined, Pod>;
}

export interface ObserveContext extends Pick<ClusterContext, 'cluster' | 'installation' | 'stopping'> {
  pods: Pick<ClusterContext['pods'], 'evictionOf'>;
}

export function makeObserve(context: ObserveContext): Engine['observe'] {
  const { cluster, installation, pods: changes, stopping } = context;
  let listed = 0;
  let reading: Promise<unknown> = Promise.resolve();
  let joined: { ids: Set<InstanceId>; answers: Promise<Map<InstanceId, Observation>> } | undefined;

  async function byName(id: InstanceId, signal: AbortSignal): Promise<Observation> {
    const [set, pod, evicted] = await Promise.all([
      ownSet(context, id, signal),
      ownPod(context, id, signal),
      changes.evictionOf(podName(id), signal),
    ]);
    return set === null ? { kind: 'absent' } : observationOf(set, pod, evicted);
  }

  async function lists(signal: AbortSignal): Promise<Lists> {
    const labelSelector = ownedSelector(installation, 'instance');
    const [sets, pods] = await Promise.all([
      cluster.list(resources.statefulSets, signal, { labelSelector }),
      cluster.list(resources.pods, signal, { labelSelector }),
    ]);
    listed = sets.length;
    return {
      sets: new Map(sets.map((one) => [one.metadata?.name, one])),
      pods: new Map(pods.map((one) => [one.metadata?.name, one])),
    };
  }

  async function fromLists({ sets, pods }: Lists, id: InstanceId, signal: AbortSignal): Promise<Observation> {
    const set = sets.get(objectName(id));
    if (set === undefined || !isOwned(set.metadata, installation, 'instance', id)) return { kind: 'absent' };
    return observationOf(set, pods.get(podName(id)) ?? null, await changes.evictionOf(podName(id), signal));
  }

  async function read(ids: ReadonlySet<InstanceId>): Promise<Map<InstanceId, Observation>> {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(LIST_MS)]);
    if (ids.size > Math.max(MAX_BY_NAME, listed * SHARE_BY_NAME)) {
      const both = await lists(signal);
      return answersOf(ids, (id) => fromLists(both, id, signal));
    }
    return answersOf(ids, (id) => byName(id, signal));
  }

  /** After the read before it: a thousand starts share few lists. */
  async function readNext(ids: ReadonlySet<InstanceId>): Promise<Map<InstanceId, Observation>> {
    await Promise.all([sleep(JOIN_MS), reading]);
    joined = undefined;
    const answers = read(ids);
    reading = answers.catch(() => {});
    return answers;
  }

  function join(ids: readonly InstanceId[]): Promise<Map<InstanceId, Observation>> {
    if (joined === undefined) {
      const together = new Set<InstanceId>();
      joined = { ids: together, answers: readNext(together) };
    }
    for (const id of ids) joined.ids.add(id);
    return joined.answers;
  }

  return async (ids, signal) => {
    if (ids.length === 0) return new Map();
    try {
      signal.throwIfAborted();
      const answers = await raceAbort(join(ids), signal);
      return new Map(ids.map((id) => [id, answers.get(id) ?? { kind: 'unknown', reason: 'not answered' }]));
    } catch (error) {
      const observation: Observation = { kind: 'unknown', reason: errorText(faultOf(error)) };
      return new Map(ids.map((id) => [id, observation]));
    }
  };
}

const answersOf = async (
  ids: ReadonlySet<InstanceId>,
  answer: (id: InstanceId) => Promise<Observation>,
): Promise<Map<InstanceId, Observation>> =>
  new Map(await Promise.all([...ids].map(async (id) => [id, await answer(id)] as const)));
