/**
 * A cache with a TTL and a bound. Each key has at most one load in flight. While the source fails,
 * stale values are returned. Reading a fresh value costs one map look-up.
 */
import { makeBoundedMap } from './bounded-map.ts';

export interface CacheOptions<Value> {
  /** `previous` is the cached value, fresh or stale, unless it has expired. */
  load: (key: string, previous: Value | undefined) => Promise<Value>;
  /** Monotonic milliseconds. */
  elapsed: () => number;
  /** Measured from the start of the load, so a value is never older than its TTL. */
  ttlMs: number | (() => number);
  maxEntries: number;
  /** Default: every loaded value is cached. */
  isCacheable?: (value: Value) => boolean;
  /** Whether the value has ended by itself, whatever the TTL: by the system date, if it has one. */
  isExpired?: (value: Value) => boolean;
  /** Allowed errors return a value of up to `maxMs` instead. Any other error drops the value. */
  staleOnError?: { isAllowed: (error: unknown) => boolean; maxMs: number };
}

export interface Cache<Value> {
  /** The value if it is fresh. Never waits. */
  peek(key: string): Value | undefined;
  /** The fresh value; else loads it, or joins the load in flight. */
  get(key: string): Promise<Value>;
  reload(key: string): Promise<Value>;
  /** Drops matching entries, and disowns loads in flight, which may predate the change. */
  invalidate(matches: (value: Value, key: string) => boolean): void;
  /** Same for one key, without a walk through all entries. */
  invalidateKey(key: string): void;
  /** Makes all entries stale and returns their values. Nobody joins or caches loads in flight. */
  expireAll(): Value[];
  readonly size: number;
}

interface Entry<Value> {
  value: Value;
  loadedAtMs: number;
}

export function makeCache<Value>(options: CacheOptions<Value>): Cache<Value> {
  const { load, elapsed, ttlMs, maxEntries, staleOnError } = options;
  const { isCacheable = () => true, isExpired = () => false } = options;
  const entries = makeBoundedMap<Entry<Value>>({ maxEntries });
  const loads = new Map<string, Promise<Value>>();
  /** Grows with each invalidation. */
  let epoch = 0;

  function within(key: string, maxAgeMs: number): Entry<Value> | undefined {
    const entry = entries.peek(key);
    if (entry === undefined) return undefined;
    return elapsed() - entry.loadedAtMs < maxAgeMs && !isExpired(entry.value) ? entry : undefined;
  }

  const currentTtlMs = (): number => (typeof ttlMs === 'number' ? ttlMs : ttlMs());
  const fresh = (key: string): Entry<Value> | undefined => within(key, currentTtlMs());

  async function reload(key: string): Promise<Value> {
    const loadedAtMs = elapsed();
    const epochBefore = epoch;
    const previous = entries.peek(key);
    const isUsable = previous !== undefined && !isExpired(previous.value);
    try {
      const value = await load(key, isUsable ? previous.value : undefined);
      entries.delete(key);
      if (epoch === epochBefore && isCacheable(value)) entries.set(ownCopy(key), { value, loadedAtMs });
      return value;
    } catch (error) {
      const isAllowed = staleOnError?.isAllowed(error) ?? false;
      if (!isAllowed) entries.delete(key);
      const stale = isAllowed ? within(key, staleOnError?.maxMs ?? 0) : undefined;
      if (stale === undefined) throw error;
      return stale.value;
    }
  }

  function distrustLoads(): void {
    epoch += 1;
    loads.clear();
  }

  return {
    peek: (key) => fresh(key)?.value,
    async get(key) {
      const entry = fresh(key);
      if (entry) return entry.value;
      const inFlight = loads.get(key);
      if (inFlight) return inFlight;
      const loading = reload(key).finally(() => {
        if (loads.get(key) === loading) loads.delete(key);
      });
      loads.set(key, loading);
      return loading;
    },
    reload,
    invalidate(matches) {
      distrustLoads();
      for (const [key, { value }] of entries.entries()) if (matches(value, key)) entries.delete(key);
    },
    invalidateKey(key) {
      distrustLoads();
      entries.delete(key);
    },
    expireAll() {
      distrustLoads();
      const latestMs = elapsed() - currentTtlMs();
      return Array.from(entries.entries(), ([, entry]) => {
        entry.loadedAtMs = Math.min(entry.loadedAtMs, latestMs);
        return entry.value;
      });
    },
    get size() {
      return entries.size;
    },
  };
}

/** Copies a sliced string: V8 would retain the header behind the key. */
const ownCopy = (key: string): string => Buffer.from(key).toString();
