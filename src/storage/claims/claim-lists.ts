/**
 * Lists of the installation's objects in a cluster, shared by all pools of a region. A list is read
 * again after a hint of a change, after a change of ours, and after its time.
 */
import { makeCache } from '../../async/cache.ts';
import type { ApiObject, PersistentVolumeClaim, Pod, VolumeSnapshot } from '../../kubernetes/api-objects.ts';
import { resources, type Resource } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { installationSelector } from './claim-names.ts';

const LIST_AGE_MS = 300_000;
const DEADLINE_MS = 20_000;

interface ListCache<T extends ApiObject> {
  list(): Promise<T[]>;
  /** After a change of ours. */
  invalidate(): void;
}

export interface ClaimLists {
  claims: ListCache<PersistentVolumeClaim>;
  /** Fails where the cluster has no such resource. */
  snapshots: ListCache<VolumeSnapshot>;
  /** Pods of instances, and those that serve files. */
  pods: ListCache<Pod>;
}

/** `now`: default, milliseconds of the system's clock. */
export function makeClaimLists(
  cluster: Pick<Cluster, 'list' | 'watch'>,
  installation: string,
  now: () => number = Date.now,
): ClaimLists {
  const labelSelector = installationSelector(installation);
  const listOf = <T extends ApiObject>(resource: Resource<T>): ListCache<T> => {
    let isWatched = false;
    const cache = makeCache<T[]>({
      async load() {
        const items = await cluster.list(resource, AbortSignal.timeout(DEADLINE_MS), { labelSelector });
        watch();
        return items;
      },
      now,
      ttlMs: LIST_AGE_MS,
      maxEntries: 1,
    });
    const invalidate = (): void => cache.invalidateKey('');

    /** From the first list that works: a missing resource has no watch. */
    function watch(): void {
      if (isWatched) return;
      isWatched = true;
      const subscriber = { onHint: invalidate, onTrouble: invalidate };
      cluster.watch(resource, labelSelector, subscriber, new AbortController().signal);
    }
    return { list: () => cache.get(''), invalidate };
  };
  return { claims: listOf(resources.claims), snapshots: listOf(resources.snapshots), pods: listOf(resources.pods) };
}
