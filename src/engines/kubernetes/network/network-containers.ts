/** Adds the network container to a running Pod, once for all joins of its network. */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { isFailure } from '../../../kubernetes/api-error.ts';
import type { Pod } from '../../../kubernetes/api-objects.ts';
import { resources } from '../../../kubernetes/api-resources.ts';
import type { ClusterContext } from '../cluster-context.ts';
import { notRunning } from '../cluster-faults.ts';
import { networkContainer, networkContainerOf } from '../manifests/network-container.ts';
import { isRunning } from '../state/run-state.ts';

/** Returns the name of the container once it runs. */
export async function ensureNetworkContainer(
  { cluster, pods }: ClusterContext,
  run: Pod,
  image: string,
  signal: AbortSignal,
): Promise<string> {
  const { name = '', uid } = run.metadata ?? {};
  let pod: Pod | null = run;
  for (;;) {
    if (pod === null || !isSameRun(pod)) throw notRunning();
    const state = networkContainerOf(pod, image);
    switch (state.kind) {
      case 'running':
        return state.name;
      case 'absent':
        pod = await add(pod, state.nextName);
        break;
      case 'starting':
        if (state.failure !== null) throw doesNotStart(image, state.failure);
        pod = await pods.until(name, (now) => (isStarting(now) ? undefined : { now }), signal).then(({ now }) => now);
        break;
      case 'exhausted':
        throw exhausted();
      default:
        return state satisfies never;
    }
  }

  function isSameRun(now: Pod): boolean {
    return now.metadata?.uid === uid && now.metadata?.deletionTimestamp === undefined && isRunning(now);
  }

  function isStarting(now: Pod | null): boolean {
    if (now === null || !isSameRun(now)) return false;
    const state = networkContainerOf(now, image);
    return state.kind === 'starting' && state.failure === null;
  }

  /** Another process of Berth may add one at the same time: then the Pod is read again. */
  async function add({ metadata, spec }: Pod, nextName: string): Promise<Pod | null> {
    const ephemeralContainers = [...(spec?.ephemeralContainers ?? []), networkContainer(nextName, image)];
    const changes = { metadata: { resourceVersion: metadata?.resourceVersion }, spec: { ephemeralContainers } };
    try {
      return await cluster.patch(resources.pods, name, changes, signal, 'ephemeralcontainers');
    } catch (error) {
      if (isFailure(error, 'conflict')) return cluster.get(resources.pods, name, signal);
      throw error;
    }
  }
}

const doesNotStart = (image: string, why: string): EngineFault =>
  new EngineFault(
    'rejected',
    `the container of the region's "networkImage" ${image} does not start: ${why}; the nodes must be able to pull it`,
    { retry: true },
  );

const exhausted = (): EngineFault =>
  new EngineFault(
    'rejected',
    'the network container of this run has ended too often, for want of memory perhaps; restart the instance',
    { retry: true },
  );
