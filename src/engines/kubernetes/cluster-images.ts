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
import type { Engine, OnProgress } from '../contract.ts';
import { faultOf } from './cluster-faults.ts';
import type { ClusterFacts } from './cluster-facts.ts';
import { runPuller, type PullerContext, type PullerRun } from './puller-runs.ts';
import { startFailureOf } from './state/start-failures.ts';
import { stuckDownload } from './waiting-pods.ts';

const PRESENT_MS = 10 * 60_000;
const MAX_REFS = 10_000;

export type EnsureImage = Engine['ensureImage'];

export function makeEnsureImage(context: PullerContext, facts: Pick<ClusterFacts, 'hasImage'>): EnsureImage {
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

type Request = Pick<PullerRun, 'ref' | 'credentials' | 'askRegistry'>;

async function pull(
  context: PullerContext,
  request: Request,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, settings, pods } = context;
  const { ref, askRegistry } = request;
  const whenFull = settings.autoscaling === undefined ? 'fails' : askRegistry ? 'waits' : 'skips';
  const download = (name: string, until: AbortSignal): Promise<EngineFault | null> => {
    onProgress({ text: `a node downloads ${ref}`, done: 0, total: 0, unit: 'bytes' });
    const outcome = pods.until(name, (pod, last) => outcomeOf(pod, last, whenFull), until);
    return Promise.race([outcome, stuckDownload({ cluster }, name, until)]);
  };
  const failure = await runPuller(context, { ...request, isClosed: true }, download, signal);
  if (failure !== null) throw failure;
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
