/**
 * `halt` and `destroy`. The StatefulSet gets the end of a run, and the last lines of a run that
 * ended by itself: a Pod that is kept for its console would run whatever the instance put there.
 */
import { userId, type InstanceId } from '../../domain/kernel/ids.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod, StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import { labels } from '../labels.ts';
import { releaseAccountNetwork, releaseUnusedNetworks } from './account-networks.ts';
import { ownPod, ownSet, type ClusterContext } from './cluster-context.ts';
import { HALT_MARK } from './manifests/pod-template.ts';
import { lastConsole } from './inside/console-logs.ts';
import { runInside } from './inside/run-inside.ts';
import { annotations, objectName, podName, portsName } from './manifests/object-names.ts';
import { mainStatusOf, timeOf } from './state/pod-status.ts';
import { endOf, isRunning, KILLED_EXIT_CODE, type LastRun } from './state/run-state.ts';

export async function haltInstance(
  context: ClusterContext,
  id: InstanceId,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, pods } = context;
  const set = await ownSet(context, id, signal);
  if (set === null) return;
  // Every later state of the Pod is seen, its last one included.
  await pods.live(signal);
  const pod = await ownPod(context, id, signal);
  if (pod === null && set.spec?.replicas === 0) return;
  if (pod !== null) await announceHalt(context, id, pod, signal);
  const console = pod === null || endOf(pod) === null ? null : await lastConsole(context, pod, signal);
  if (pod !== null) await removePod(context, pod, Math.max(1, Math.ceil(graceMs / 1000)), signal);
  await cluster.patch(
    resources.statefulSets,
    objectName(id),
    { metadata: { uid: set.metadata?.uid }, spec: { replicas: 0 } },
    signal,
  );
  const end = pod === null ? null : await endOfRemoved(context, id, pod, signal);
  pods.forgetEviction(podName(id));
  if (end === null) return;
  const ended = { [annotations.lastRun]: JSON.stringify(end), [annotations.lastConsole]: console };
  const metadata = { uid: set.metadata?.uid, annotations: ended };
  await cluster.patch(resources.statefulSets, objectName(id), { metadata }, signal);
}

const MARK_MS = 5_000;

/** Without the mark, a spot instance would take the stop for a preemption, and wait. */
async function announceHalt(context: ClusterContext, id: InstanceId, pod: Pod, signal: AbortSignal): Promise<void> {
  const hasHook = pod.spec?.containers.some(({ lifecycle }) => lifecycle?.preStop !== undefined) === true;
  if (!hasHook || !isRunning(pod)) return;
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(MARK_MS)]);
  try {
    await runInside(context, id, ['/bin/sh', '-c', `: >${HALT_MARK}`], deadline);
  } catch (error) {
    signal.throwIfAborted();
    context.log.debug({ id, err: error }, 'could not announce a stop to a spot instance; its node ends it later');
  }
}

async function removePod(
  { cluster }: ClusterContext,
  pod: Pod,
  graceSeconds: number,
  signal: AbortSignal,
): Promise<void> {
  const { name = '', uid } = pod.metadata ?? {};
  // A container that only waits needs no time.
  const seconds = isRunning(pod) ? graceSeconds : 1;
  await cluster.remove(resources.pods, name, signal, { uid, graceSeconds: seconds }).catch((error: unknown) => {
    if (!isFailure(error, 'conflict')) throw error;
  });
}

/** Waits until the Pod is gone. Null: it never ran. */
async function endOfRemoved(
  { pods }: ClusterContext,
  id: InstanceId,
  pod: Pod,
  signal: AbortSignal,
): Promise<LastRun | null> {
  const uid = pod.metadata?.uid;
  let startedAtMs = timeOf(mainStatusOf(pod)?.state?.running?.startedAt);
  let end = endOf(pod);
  await pods.until(
    podName(id),
    (now, last) => {
      const seen = [now, last].find((one) => one?.metadata?.uid === uid) ?? null;
      startedAtMs = Math.max(startedAtMs, timeOf(mainStatusOf(seen)?.state?.running?.startedAt));
      end ??= endOf(seen);
      return now?.metadata?.uid === uid ? undefined : true;
    },
    signal,
  );
  if (end !== null) return end;
  return startedAtMs === 0 ? null : { startedAtMs, exitCode: KILLED_EXIT_CODE, outOfMemory: false };
}

export async function destroyInstance(context: ClusterContext, id: InstanceId, signal: AbortSignal): Promise<void> {
  const owner = await removeInstance(context, id, signal);
  if (owner !== null) return releaseAccountNetwork(context, userId(owner), signal);
  // Without the instance its account is unknown, and an earlier call may have ended before this.
  await releaseUnusedNetworks(context, signal);
}

/** Returns the account of the instance, if it was there. */
export async function removeInstance(
  context: ClusterContext,
  id: InstanceId,
  signal: AbortSignal,
): Promise<string | null> {
  const { cluster, pods } = context;
  const [set, pod] = await Promise.all([ownSet(context, id, signal), ownPod(context, id, signal)]);
  if (set === null && pod === null) return null;
  if (set !== null) await removeSet(context, set, signal);
  if (pod !== null) await removePod(context, pod, 1, signal);
  // Free at once for another instance; the cluster removes what else the instance owns.
  if (set !== null && set.metadata?.annotations?.[annotations.nodePorts] !== '[]')
    await cluster.remove(resources.services, portsName(id), signal);
  if (pod !== null) {
    const gone = (now: Pod | null): true | undefined => (now?.metadata?.uid === pod.metadata?.uid ? undefined : true);
    await pods.until(podName(id), gone, signal);
  }
  pods.forgetEviction(podName(id));
  return (set ?? pod)?.metadata?.labels?.[labels.owner] ?? null;
}

async function removeSet({ cluster }: ClusterContext, { metadata }: StatefulSet, signal: AbortSignal): Promise<void> {
  try {
    await cluster.remove(resources.statefulSets, metadata?.name ?? '', signal, { uid: metadata?.uid });
  } catch (error) {
    if (!isFailure(error, 'conflict')) throw error; // another one by now
  }
}
