/** Whether the cluster takes the run of an instance away, and why. Pure. */
import type { Disruption } from '../../../domain/compute/disruption.ts';
import type { ClusterEvent, Pod, StatefulSet } from '../../../kubernetes/api-objects.ts';
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
  const why = whyOf(pod);
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

function whyOf(pod: Pod): Pick<Disruption, 'text' | 'usedUp'> {
  const usedUp = targetOf(pod)?.reason === 'TerminationByKubelet' ? usedUpOf(kubeletText(pod)) : null;
  return { text: reasonOf(pod), ...(usedUp === null ? {} : { usedUp }) };
}

const kubeletText = (pod: Pod): string => pod.status?.message ?? targetOf(pod)?.message ?? 'no reason given';

/** Null: the kubelet ended the Pod for another reason. */
function usedUpOf(text: string): Disruption['usedUp'] | null {
  if (/ephemeral local storage|local ephemeral storage|EmptyDir volume/i.test(text)) return 'rootDisk';
  return /low on resource/i.test(text) ? 'node' : null;
}

/**
 * Reads the eviction of a Pod that wrote more than its root disk holds; null: none. Its status says
 * nothing where all containers ended with 0.
 */
export function rootDiskEviction(events: readonly ClusterEvent[]): Disruption | null {
  const text = events.find(
    ({ reason, message = '' }) => reason === 'Evicted' && usedUpOf(message) === 'rootDisk',
  )?.message;
  return text === undefined ? null : { text: endedText(text), graceMs: 0, usedUp: 'rootDisk' };
}

const endedText = (kubeletText: string): string => `the node ended the instance: ${kubeletText.trim()}`;

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
      return endedText(kubeletText(pod));
    default:
      return 'another program deleted the Pod of the instance';
  }
}
