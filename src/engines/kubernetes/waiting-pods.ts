/** Bounds what a StatefulSet without a Pod, and a Pod without its image or disks, wait for. */
import { setTimeout as delay } from 'node:timers/promises';
import { raceAbort } from '../../async/abort.ts';
import { EngineFault, type FaultReason } from '../../domain/regions/engine-fault.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod, StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec } from '../contract.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import { podName } from './manifests/object-names.ts';
import { nodeTroubleOf, pulledImageOf } from './state/start-failures.ts';

/** Pauses before each question. */
const PAUSES_MS = [300, 700, 2_000, 5_000, 10_000];

/**
 * Resolves with the refusal, for want of quota or by a policy; never while the StatefulSet has its
 * Pod, or may create it. The StatefulSet says so by events alone, which have times of another clock
 * and are dropped when they repeat: a creation that changes nothing asks the server instead.
 */
export async function refusedPod(
  { cluster }: Pick<ClusterContext, 'cluster'>,
  { id }: Pick<EngineSpec, 'id'>,
  { spec }: StatefulSet,
  signal: AbortSignal,
  pausesMs: readonly number[] = PAUSES_MS,
): Promise<EngineFault> {
  const name = podName(id);
  for (const pauseMs of pausesMs) {
    await delay(pauseMs, undefined, { signal });
    if ((await cluster.get(resources.pods, name, signal)) !== null) continue;
    const pod = { ...spec?.template, metadata: { ...spec?.template.metadata, name } };
    try {
      await cluster.create(resources.pods, pod, signal, { dryRun: true });
    } catch (error) {
      signal.throwIfAborted();
      if (!isFailure(error, 'exists')) return faultOf(error);
    }
  }
  return raceAbort(new Promise<never>(() => {}), signal);
}

/** Pauses before each look at a Pod that has a node; the last one repeats. */
const LOOKS_MS = [1_000, 2_000, 3_000, 4_000, 10_000];
/** Wait for an image that is not worth a word. */
const PULL_PATIENCE_MS = 10_000;
/** Below the deadline of a call, which says nothing about the Pod. */
const START_PATIENCE_MS = 45_000;

export interface Patience {
  looksMs?: readonly number[];
  pullMs?: number;
  startMs?: number;
}

/**
 * Returns a fault once the node of the Pod cannot start it, or still downloads its image; rejects
 * with the signal. The node goes on by itself.
 */
export async function slowNode(
  context: Pick<ClusterContext, 'cluster' | 'installation'>,
  { id }: Pick<EngineSpec, 'id'>,
  { looksMs = LOOKS_MS, pullMs = PULL_PATIENCE_MS, startMs = START_PATIENCE_MS }: Patience,
  signal: AbortSignal,
): Promise<EngineFault> {
  const beganMs = performance.now();
  for (let look = 0; ; look++) {
    await delay(looksMs[Math.min(look, looksMs.length - 1)], undefined, { signal });
    const pod = await ownPod(context, id, signal);
    if (pod?.spec?.nodeName === undefined) continue;
    const events = await eventsOf(context, pod, signal);
    const trouble = nodeTroubleOf(pod, events);
    if (trouble !== null) return trouble;
    const waitedMs = performance.now() - beganMs;
    const image = pulledImageOf(events);
    if (image !== null && waitedMs >= pullMs) return pending('imagePending', stillDownloads(image));
    if (image === null && waitedMs >= startMs) return pending('startPending', STILL_STARTS);
  }
}

/** Returns a fault once a node cannot start the Pod of a download; rejects with the signal. */
export async function stuckDownload(
  context: Pick<ClusterContext, 'cluster'>,
  name: string,
  signal: AbortSignal,
  looksMs: readonly number[] = LOOKS_MS,
): Promise<EngineFault> {
  for (let look = 0; ; look++) {
    await delay(looksMs[Math.min(look, looksMs.length - 1)], undefined, { signal });
    const pod = await context.cluster.get(resources.pods, name, signal);
    const trouble = pod === null ? null : nodeTroubleOf(pod, await eventsOf(context, pod, signal));
    if (trouble !== null) return trouble;
  }
}

export const eventsOf = ({ cluster }: Pick<ClusterContext, 'cluster'>, { metadata }: Pod, signal: AbortSignal) =>
  cluster.list(resources.events, signal, { fieldSelector: `involvedObject.uid=${metadata?.uid ?? ''}` });

const stillDownloads = (image: string): string =>
  `a node of the cluster still downloads ${image}; the instance starts when it has`;
const STILL_STARTS = 'the node of the instance has not started it yet; Berth waits for it';

const pending = (reason: FaultReason, text: string): EngineFault =>
  new EngineFault('busy', text, { retry: true, reason });

/** Provisioners of clouds take up to half a minute. The volume is made further without the Pod. */
const CLAIM_PATIENCE_MS = 40_000;

/** Returns a fault once the Pod waits for its claims for too long; rejects with the signal. */
export async function claimFault(context: ClusterContext, spec: EngineSpec, signal: AbortSignal): Promise<EngineFault> {
  for (;;) {
    await delay(CLAIM_PATIENCE_MS, undefined, { signal });
    const pod = await ownPod(context, spec.id, signal);
    if (pod?.spec?.nodeName !== undefined) continue;
    const unbound = await unboundClaims(context, spec, signal);
    if (unbound.length === 0) continue;
    const text = `the cluster has not made the volumes of all disks yet (claims ${unbound.join(', ')}); Berth retries`;
    return pending('diskPending', text);
  }
}

async function unboundClaims({ cluster }: ClusterContext, { mounts }: EngineSpec, signal: AbortSignal) {
  const names = [...new Set(mounts.map(({ source }) => source))];
  const claims = await Promise.all(names.map((name) => cluster.get(resources.claims, name, signal)));
  return names.filter((_, at) => claims[at] !== null && claims[at]?.status?.phase !== 'Bound');
}
