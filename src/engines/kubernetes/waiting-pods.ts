/** Bounds what a StatefulSet without a Pod, and a Pod without its image or disks, wait for. */
import { setTimeout as delay } from 'node:timers/promises';
import { raceAbort } from '../../async/abort.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec } from '../contract.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import { podName } from './manifests/object-names.ts';
import { pulledImageOf } from './state/start-failures.ts';

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

const PULL_PATIENCE_MS = 10_000;

/** Returns a fault once the Pod still waits for its image; rejects with the signal. */
export async function slowPull(
  context: Pick<ClusterContext, 'cluster' | 'installation'>,
  { id }: Pick<EngineSpec, 'id'>,
  { firstMs = PULL_PATIENCE_MS, againMs = PULL_PATIENCE_MS }: { firstMs?: number; againMs?: number },
  signal: AbortSignal,
): Promise<EngineFault> {
  for (let pauseMs = firstMs; ; pauseMs = againMs) {
    await delay(pauseMs, undefined, { signal });
    const pod = await ownPod(context, id, signal);
    if (pod?.spec?.nodeName === undefined) continue;
    const fieldSelector = `involvedObject.uid=${pod.metadata?.uid ?? ''}`;
    const image = pulledImageOf(await context.cluster.list(resources.events, signal, { fieldSelector }));
    if (image === null) continue;
    const text = `a node of the cluster still downloads ${image}; the instance starts when it has`;
    return new EngineFault('busy', text, { retry: true, reason: 'imagePending' });
  }
}

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
    return new EngineFault('busy', text, { retry: true, reason: 'diskPending' });
  }
}

async function unboundClaims({ cluster }: ClusterContext, { mounts }: EngineSpec, signal: AbortSignal) {
  const names = [...new Set(mounts.map(({ source }) => source))];
  const claims = await Promise.all(names.map((name) => cluster.get(resources.claims, name, signal)));
  return names.filter((_, at) => claims[at] !== null && claims[at]?.status?.phase !== 'Bound');
}
