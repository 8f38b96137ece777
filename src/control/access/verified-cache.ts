/**
 * Cache of verified credentials, keyed by the whole credential. An entry is fresh for one second,
 * the bound on how long a credential that another process revoked still works here. What this
 * process revokes, it invalidates at once.
 */
import { makeCache } from '../../async/cache.ts';
import type { Time } from '../kernel/ports.ts';

export interface Verified<Subject> {
  subject: Subject;
  expiresAtMs: number;
}

export interface VerifiedCache<Subject> {
  /** Null when the credential is not cached or not fresh. Never waits. */
  fresh(credential: string): Subject | null;
  /** Verifies what is not fresh, once for concurrent callers. Null for an invalid credential. */
  find(credential: string): Promise<Subject | null>;
  revalidate(credential: string): Promise<Subject | null>;
  /** Drops matching entries, and caches no result of a verification that began earlier. */
  invalidate(matches: (subject: Subject) => boolean): void;
  readonly size: number;
}

const FRESH_MS = 1_000;

export function makeVerifiedCache<Subject>(deps: {
  time: Pick<Time, 'now' | 'elapsed'>;
  maxEntries: number;
  /** `cached` is the earlier result, unless it has expired. */
  verify: (credential: string, cached: Subject | null) => Promise<Verified<Subject> | null>;
}): VerifiedCache<Subject> {
  const { time, maxEntries, verify } = deps;
  const cache = makeCache<Verified<Subject> | null>({
    load: (credential, previous) => verify(credential, previous?.subject ?? null),
    elapsed: time.elapsed,
    ttlMs: FRESH_MS,
    maxEntries,
    // Guessed credentials must not evict valid ones.
    isCacheable: (verified) => verified !== null,
    isExpired: (verified) => time.now() >= (verified?.expiresAtMs ?? 0),
  });
  const fresh = (credential: string): Subject | null => cache.peek(credential)?.subject ?? null;
  return {
    fresh,
    find: async (credential) => fresh(credential) ?? (await cache.get(credential))?.subject ?? null,
    revalidate: async (credential) => (await cache.reload(credential))?.subject ?? null,
    invalidate: (matches) => cache.invalidate((verified) => verified !== null && matches(verified.subject)),
    get size() {
      return cache.size;
    },
  };
}
