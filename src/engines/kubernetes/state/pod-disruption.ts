/** Whether the cluster takes the run of an instance away, and why. Pure. */
import type { Disruption } from '../../../domain/compute/disruption.ts';
import type { Pod, StatefulSet } from '../../../kubernetes/api-objects.ts';
import { STOP_SECONDS } from '../manifests/preemption-notice.ts';
import { START_GATE } from '../manifests/pod-template.ts';
import { hasEnded, mainStatusOf } from './pod-status.ts';

/** A Pod that the scheduler leaves alone until Berth starts it. */
export const isGated = (pod: Pod): boolean =>
  pod.spec?.schedulingGates?.some(({ name }) => name === START_GATE) === true;

/** Null also for what Berth ends itself, once it has asked for no Pod. */
export function disruptionOf({ metadata, spec }: StatefulSet, pod: Pod | null): Disruption | null {
  if (spec?.replicas !== 1 || metadata?.deletionTimestamp !== undefined) return null;
  if (pod === null) return { text: GONE, graceMs: 0 };
  const why = { text: reasonOf(pod), ...(isOwnUse(pod) && { isOwnUse: true as const }) };
  const { deletionTimestamp, deletionGracePeriodSeconds: graceSeconds = 0 } = pod.metadata ?? {};
  if (deletionTimestamp !== undefined) return { ...why, graceMs: 1_000 * Math.max(0, graceSeconds - STOP_SECONDS) };
  if (pod.status?.phase === 'Failed' && targetOf(pod) !== undefined) return { ...why, graceMs: 0 };
  const status = mainStatusOf(pod);
  const hasRun = status?.state?.running !== undefined || hasEnded(status);
  return hasRun ? null : { text: GONE, graceMs: 0 };
}

const GONE = 'the Pod of the instance was removed from its node';

const targetOf = ({ status }: Pod) =>
  status?.conditions?.find(({ type, status: met }) => type === 'DisruptionTarget' && met === 'True');

/** The kubelet ended the Pod because its node, or a limit of the Pod, was used up. */
const isOwnUse = (pod: Pod): boolean =>
  targetOf(pod)?.reason === 'TerminationByKubelet' &&
  /low on resource|ephemeral (local )?storage|EmptyDir volume/i.test(
    pod.status?.message ?? targetOf(pod)?.message ?? '',
  );

function reasonOf(pod: Pod): string {
  const target = targetOf(pod);
  switch (target?.reason) {
    case 'PreemptionByScheduler':
      return 'the cluster gave the capacity of the instance to a Pod of higher priority';
    case 'EvictionByEvictionAPI':
      return 'the instance was evicted from its node, as when the node is drained';
    case 'DeletionByTaintManager':
      return 'the node of the instance did not answer, or was reserved for other Pods';
    case 'DeletionByPodGC':
      return 'the node of the instance is gone from the cluster';
    case 'TerminationByKubelet':
      return `the node ended the instance: ${pod.status?.message ?? target.message ?? 'no reason given'}`;
    default:
      return 'another program deleted the Pod of the instance';
  }
}
