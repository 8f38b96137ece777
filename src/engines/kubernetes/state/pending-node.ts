/** Wait of an unschedulable Pod: its length, and the words of the autoscaler. Pure. */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { MINUTE_MS } from '../../../domain/kernel/durations.ts';
import type { Autoscaling } from '../../../domain/regions/kubernetes-settings.ts';
import type { ClusterEvent, Pod } from '../../../kubernetes/api-objects.ts';
import { annotations } from '../manifests/object-names.ts';
import { lastMsOf } from './pod-status.ts';

const DEFAULT_PATIENCE_MINUTES = 10;
const SCHEDULER = 'default-scheduler';
/** Event reasons of Cluster Autoscaler and Karpenter when a node is added. */
const COMING = ['TriggeredScaleUp', 'Nominated'];

/** Start of the wait by the clock of Berth; null: not recorded yet. */
export function pendingSinceOf({ metadata }: Pod): number | null {
  const sinceMs = Number(metadata?.annotations?.[annotations.pendingSince]);
  return Number.isSafeInteger(sinceMs) ? sinceMs : null;
}

export interface PendingPod {
  /** Words of the scheduler. */
  unplaced: EngineFault;
  /** Events of the Pod. */
  events: readonly ClusterEvent[];
  waitedMs: number;
  autoscaling: Autoscaling;
}

/** `nodePending` within the patience of the region, then `clusterFull`. */
export function pendingFault({ unplaced, events, waitedMs, autoscaling }: PendingPod): EngineFault {
  const { patienceMinutes = DEFAULT_PATIENCE_MINUTES } = autoscaling;
  const last = lastOfAutoscaler(events);
  const words = last === undefined ? '' : `${last.reason ?? ''}: ${last.message ?? ''}`;
  if (waitedMs >= patienceMinutes * MINUTE_MS) {
    const why = words === '' ? '' : ` (${words})`;
    const text = `${unplaced.message}; no node came within ${patienceMinutes} minutes${why}; Berth retries`;
    return new EngineFault('no_capacity', text, { retry: true, reason: 'clusterFull' });
  }
  const wait = `the instance waits up to ${patienceMinutes} minutes for a node`;
  const text = COMING.includes(last?.reason ?? '')
    ? `a node is being added to the cluster (${words})`
    : `${wait}: ${words === '' ? unplaced.message : words}`;
  return new EngineFault('busy', text, { retry: true, reason: 'nodePending' });
}

/** The scheduler's own events repeat the condition of the Pod. */
const lastOfAutoscaler = (events: readonly ClusterEvent[]): ClusterEvent | undefined =>
  events
    .filter(({ source, reportingComponent }) => (source?.component || reportingComponent) !== SCHEDULER)
    .toSorted((a, b) => lastMsOf(a) - lastMsOf(b))
    .at(-1);
