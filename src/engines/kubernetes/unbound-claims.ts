/** Bounds the wait for disks: a claim without a volume keeps its Pod waiting without an end. */
import { setTimeout as delay } from 'node:timers/promises';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { EngineSpec } from '../contract.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';

/** Provisioners of clouds take up to half a minute. The volume is made further without the Pod. */
const PATIENCE_MS = 40_000;

/** Returns a fault once the Pod waits for its claims for too long; rejects with the signal. */
export async function claimFault(context: ClusterContext, spec: EngineSpec, signal: AbortSignal): Promise<EngineFault> {
  for (;;) {
    await delay(PATIENCE_MS, undefined, { signal });
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
