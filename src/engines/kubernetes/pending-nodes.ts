/**
 * Pods that wait for a node of an autoscaler. In a region with `autoscaling`, an unschedulable Pod
 * stays for the patience of the region: autoscalers act on Pending Pods alone.
 */
import type { EngineFault } from '../../domain/regions/engine-fault.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { ClusterContext } from './cluster-context.ts';
import { annotations } from './manifests/object-names.ts';
import { pendingSinceOf, pendingFault } from './state/pending-node.ts';
import { schedulingFault } from './state/start-failures.ts';
import { eventsOf } from './waiting-pods.ts';

/** Null: the Pod does not wait for a node, or the region has no autoscaler. */
export async function nodeFault(
  { cluster, settings: { autoscaling } }: Pick<ClusterContext, 'cluster' | 'settings'>,
  pod: Pod | null,
  signal: AbortSignal,
): Promise<EngineFault | null> {
  const unplaced = pod === null ? null : schedulingFault(pod);
  if (pod === null || unplaced?.reason !== 'clusterFull' || autoscaling === undefined) return null;
  const { name = '', uid } = pod.metadata ?? {};
  const nowMs = Date.now();
  const sinceMs = pendingSinceOf(pod);
  if (sinceMs === null) {
    // The clock of Berth: the cluster may have another. The next process reads it from the Pod.
    const metadata = { uid, annotations: { [annotations.pendingSince]: String(nowMs) } };
    await cluster.patch(resources.pods, name, { metadata }, signal).catch((error: unknown) => {
      if (!isFailure(error, 'conflict', 'absent')) throw error; // another Pod by now
    });
  }
  const events = await eventsOf({ cluster }, pod, signal);
  return pendingFault({ unplaced, events, waitedMs: nowMs - (sinceMs ?? nowMs), autoscaling });
}
