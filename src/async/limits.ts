/** Limits that refuse instead of waiting: nested counts, counts per key, and a token bucket. */

/** Idempotent. */
export type Release = () => void;

/** Null when the limit is reached. */
export type TryAcquire = () => Release | null;

/** Grants `max` permits at once; each also takes one of `parent`. */
export function makeLimit(max: number, parent: TryAcquire = () => () => {}): TryAcquire {
  let count = 0;
  return () => {
    const releaseParent = count < max ? parent() : null;
    if (releaseParent === null) return null;
    count += 1;
    return once(() => {
      count -= 1;
      releaseParent();
    });
  };
}

export interface KeyedLimit {
  /** `maxOfKey` replaces `perKey`. */
  tryAcquire(key: string, maxOfKey?: number): Release | null;
  countOf(key: string): number;
  readonly total: number;
}

export interface KeyedLimitOptions {
  total: number;
  perKey: number | ((free: number) => number);
  /** Permits of each key beyond `total`, so that no other keys can take them. Default: none. */
  share?: number;
}

/** Grants `total` permits at once. A `perKey` below the free ones leaves capacity for new keys. */
export function makeKeyedLimit({ share = 0, ...max }: KeyedLimitOptions): KeyedLimit {
  const counts = new Map<string, number>();
  let total = 0;
  const countOf = (key: string): number => counts.get(key) ?? 0;
  return {
    tryAcquire(key, given) {
      const free = max.total - total;
      const maxOfKey = given ?? (typeof max.perKey === 'number' ? max.perKey : max.perKey(free));
      if ((free <= 0 && countOf(key) >= share) || countOf(key) >= maxOfKey) return null;
      counts.set(key, countOf(key) + 1);
      total += 1;
      return once(() => {
        total -= 1;
        if (countOf(key) > 1) counts.set(key, countOf(key) - 1);
        else counts.delete(key);
      });
    },
    countOf,
    get total() {
      return total;
    },
  };
}

export interface RateLimit {
  burst: number;
  perSecond: number;
}

/** A token bucket: `burst` at once, then `perSecond`. False when it is empty. */
export function makeTokenBucket({ burst, perSecond }: RateLimit, now: () => number): () => boolean {
  let tokens = burst;
  let refilledAtMs = now();
  return () => {
    const nowMs = now();
    tokens = Math.min(burst, tokens + ((nowMs - refilledAtMs) / 1_000) * perSecond);
    refilledAtMs = nowMs;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  };
}

/** Ignores every call after the first. */
export function once(release: () => void): Release {
  let isReleased = false;
  return () => {
    if (isReleased) return;
    isReleased = true;
    release();
  };
}
