/**
 * A list of objects that is kept while a watch follows it. It is read again after a hint of a
 * change, after a change of ours, and after its time; without a watch, each time.
 */
import { makeCache } from '../async/cache.ts';
import { makeSharedCalls } from '../async/coalesce.ts';
import type { ApiObject } from './api-objects.ts';
import type { Resource } from './api-resources.ts';
import type { Cluster } from './cluster.ts';
import type { Subscription } from './cluster-watch.ts';

const AGE_MS = 300_000;
const DEADLINE_MS = 20_000;

export interface ObjectList<T extends ApiObject> {
  /** Throws an `ApiError`. */
  list(): Promise<T[]>;
  /** After a change of ours. */
  invalidate(): void;
}

export interface ObjectListOptions<T extends ApiObject> {
  cluster: Pick<Cluster, 'list' | 'watch'>;
  resource: Resource<T>;
  labelSelector: string;
  /** Monotonic milliseconds. */
  elapsed?: (() => number) | undefined;
  stopping?: AbortSignal | undefined;
}

export function makeObjectList<T extends ApiObject>({
  cluster,
  resource,
  labelSelector,
  elapsed = () => performance.now(),
  stopping = new AbortController().signal,
}: ObjectListOptions<T>): ObjectList<T> {
  let watch: Subscription | undefined;
  const isFollowed = (): boolean => watch !== undefined && watch.heardMs() > -Infinity;
  async function load(): Promise<{ items: T[]; isFollowed: boolean }> {
    const before = isFollowed();
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(DEADLINE_MS)]);
    const items = await cluster.list(resource, signal, { labelSelector });
    // From the first list that works: a missing resource has no watch.
    watch ??= cluster.watch(resource, labelSelector, { onHint: invalidate, onTrouble: invalidate }, stopping);
    return { items, isFollowed: before };
  }
  const cache = makeCache<{ items: T[]; isFollowed: boolean }>({
    // A thousand launches change the list a thousand times while it is read once.
    load: makeSharedCalls(load),
    elapsed,
    ttlMs: AGE_MS,
    maxEntries: 1,
    isCacheable: (loaded) => loaded.isFollowed,
  });
  function invalidate(): void {
    cache.invalidateKey('');
  }
  return { list: async () => (await cache.get('')).items, invalidate };
}
