/**
 * Pods that the cluster refuses to create, for want of quota or by a policy. The StatefulSet says
 * so by events alone, which have times of another clock and are dropped when they repeat: Berth
 * asks the server instead, by a creation that changes nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { raceAbort } from '../../async/abort.ts';
import type { EngineFault } from '../../domain/regions/engine-fault.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { StatefulSet } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec } from '../contract.ts';
import type { ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import { podName } from './manifests/object-names.ts';

/** Pauses before each question. */
const PAUSES_MS = [300, 700, 2_000, 5_000, 10_000];

/** Resolves with the refusal; never while the StatefulSet has its Pod, or may create it. */
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
