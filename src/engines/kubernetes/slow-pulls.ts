/** Bounds the wait for a node that downloads an image, which may take many minutes. */
import { setTimeout as delay } from 'node:timers/promises';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec } from '../contract.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';
import { pulledImageOf } from './state/start-failures.ts';

const PATIENCE_MS = 10_000;

/** Returns a fault once the Pod still waits for its image; rejects with the signal. */
export async function slowPull(
  context: Pick<ClusterContext, 'cluster' | 'installation'>,
  { id }: Pick<EngineSpec, 'id'>,
  { firstMs = PATIENCE_MS, againMs = PATIENCE_MS }: { firstMs?: number; againMs?: number },
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
