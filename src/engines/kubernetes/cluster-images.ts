/**
 * # Images
 *
 * The nodes keep images, and only Pods make them download one. `ensureImage` runs a short-lived Pod
 * of the image, unless a node has reported the image or another Pod has just run it. On another
 * node the Pod of an instance downloads again. Nothing is saved, pushed or removed.
 */
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { makeBoundedMap } from '../../async/bounded-map.ts';
import type { Pod } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Engine, OnProgress } from '../contract.ts';
import type { ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import { newPullerName, pullerPod, pullerPolicy, pullerSecret } from './manifests/puller-pod.ts';
import { startFailureOf } from './state/start-failures.ts';
import { stuckDownload } from './waiting-pods.ts';

const PRESENT_MS = 10 * 60_000;
const MAX_REFS = 10_000;
const CLEAN_MS = 5_000;

export type EnsureImage = Engine['ensureImage'];

export interface ImagesContext extends Pick<
  ClusterContext,
  'cluster' | 'installation' | 'settings' | 'log' | 'stopping'
> {
  pods: Pick<ClusterContext['pods'], 'until'>;
}

export function makeEnsureImage(context: ImagesContext, facts: Pick<ClusterFacts, 'hasImage'>): EnsureImage {
  const seenMs = makeBoundedMap<number>({ maxEntries: MAX_REFS });
  return async (ref, onProgress, signal, credentials, { askRegistry } = { askRegistry: false }) => {
    try {
      signal.throwIfAborted();
      const isRecent = performance.now() - (seenMs.get(ref) ?? -Infinity) < PRESENT_MS;
      if (!askRegistry && (isRecent || (await facts.hasImage(ref, signal)))) return;
      await pull(context, { ref, credentials, askRegistry }, onProgress, signal);
      seenMs.set(ref, performance.now());
    } catch (error) {
      seenMs.delete(ref);
      throw faultOf(error);
    }
  };
}

interface Request {
  ref: string;
  credentials: Parameters<EnsureImage>[3];
  askRegistry: boolean;
}

async function pull(
  { cluster, installation, settings, pods, stopping, log }: ImagesContext,
  { ref, credentials, askRegistry }: Request,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<void> {
  const name = newPullerName(ref);
  const settled = new AbortController();
  const until = AbortSignal.any([signal, settled.signal]);
  const puller = { name, installation, settings, ref, askRegistry, hasSecret: credentials !== undefined };
  try {
    await Promise.all([
      cluster.create(resources.networkPolicies, pullerPolicy(puller), signal),
      ...(credentials === undefined
        ? []
        : [cluster.create(resources.secrets, pullerSecret(puller, credentials), signal)]),
    ]);
    await cluster.create(resources.pods, pullerPod(puller), signal);
    onProgress({ text: `a node downloads ${ref}`, done: 0, total: 0, unit: 'bytes' });
    const whenFull = settings.autoscaling === undefined ? 'fails' : askRegistry ? 'waits' : 'skips';
    const outcome = pods.until(name, (pod, last) => outcomeOf(pod, last, whenFull), until);
    const failure = await Promise.race([outcome, stuckDownload({ cluster }, name, until)]);
    if (failure !== null) throw failure;
  } finally {
    settled.abort();
    const cleaning = AbortSignal.any([stopping, AbortSignal.timeout(CLEAN_MS)]);
    const remove = async (): Promise<void> => {
      await cluster.remove(resources.pods, name, cleaning, { graceSeconds: 0 });
      await cluster.remove(resources.networkPolicies, name, cleaning);
      if (credentials !== undefined) await cluster.remove(resources.secrets, name, cleaning);
    };
    await remove().catch((error: unknown) => {
      log.debug({ name, err: error }, 'could not remove the Pod of a download; the next sweep does');
    });
  }
}

/**
 * Null: the node has the image. Undefined: the download goes on. Without free capacity, an
 * autoscaler adds a node for the Pod of the instance, and that node downloads the image. Only an
 * answer of the registry needs a node for this Pod.
 */
function outcomeOf(
  pod: Pod | null,
  last: Pod | null,
  whenFull: 'fails' | 'waits' | 'skips',
): EngineFault | null | undefined {
  if (pod === null)
    return last === null
      ? undefined
      : new EngineFault('busy', 'the download of the image was ended by the cluster; Berth retries', { retry: true });
  const failure = startFailureOf(pod);
  if (failure?.reason === 'clusterFull' && whenFull !== 'fails') return whenFull === 'skips' ? null : undefined;
  if (failure !== null) return failure;
  const state = pod.status?.containerStatuses?.[0]?.state;
  if (state?.running !== undefined || state?.terminated !== undefined) return null;
  if (pod.status?.phase === 'Failed')
    return new EngineFault(
      'busy',
      `the download of the image was ended by its node: ${pod.status.message ?? pod.status.reason ?? ''}`,
      { retry: true },
    );
  return undefined;
}
