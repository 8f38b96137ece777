/**
 * Leaky buckets of wrong passwords, per account name and per address, and of logins and wrong
 * codes, per account.
 * By the monotonic clock: a system date that is set back would lock accounts out for as long.
 * An address with an earlier login of a name has a bucket of its own for wrong passwords, so that
 * an attacker can't lock out the owner.
 */
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { addressBucket } from './address-bucket.ts';
import type { Time } from '../kernel/ports.ts';

export interface Limit {
  burst: number;
  forgiveMs: number;
}

const perName: Limit = { burst: 10, forgiveMs: 60_000 };
const perAddress: Limit = { burst: 60, forgiveMs: 10_000 };
const loginsPerName: Limit = { burst: 30, forgiveMs: 2_000 };
/** Three of a million codes are right at a time. */
const codesPerName: Limit = { burst: 10, forgiveMs: 600_000 };
/** Bounds the memory; in a flood of names, the limit per address still holds. */
const MAX_REMEMBERED = 20_000;

export const makeBuckets = (limit: Limit, elapsed: () => number) => {
  /** When the bucket will be empty: failures × forgiveMs ahead of the clock. */
  const emptyAtMs = makeBoundedMap<number>({ maxEntries: MAX_REMEMBERED });
  const debtMs = (key: string) => Math.max(0, (emptyAtMs.peek(key) ?? 0) - elapsed());
  return {
    waitMs: (key: string) => Math.max(0, debtMs(key) - (limit.burst - 1) * limit.forgiveMs),
    /** Concurrent failures never fill a bucket beyond its burst. */
    fill(key: string): void {
      emptyAtMs.set(key, elapsed() + Math.min(debtMs(key) + limit.forgiveMs, limit.burst * limit.forgiveMs));
    },
    forgive(key: string): void {
      emptyAtMs.set(key, elapsed() + Math.max(0, debtMs(key) - limit.forgiveMs));
    },
    get size() {
      return emptyAtMs.size;
    },
  };
};

export interface LoginRateLimit {
  /** Throws `too_many_requests` with the wait. `from`: the client's address, if it counts. */
  check(name: string, from: string | null): void;
  failed(name: string, from: string | null): void;
  /** Counts a login, or throws `too_many_requests`: only the right password reveals the limit. */
  succeeded(name: string, from: string | null): void;
  /** Counts a code before its check, or throws. Call the answer after a right code. */
  tryCode(name: string, from: string | null): () => void;
  readonly size: number;
}

export const makeLoginRateLimit = ({ elapsed }: Pick<Time, 'elapsed'>): LoginRateLimit => {
  const names = makeBuckets(perName, elapsed);
  const addresses = makeBuckets(perAddress, elapsed);
  const logins = makeBuckets(loginsPerName, elapsed);
  const codes = makeBuckets(codesPerName, elapsed);
  const loggedInFrom = makeBoundedMap<true>({ maxEntries: MAX_REMEMBERED });
  const pair = (name: string, bucket: string) => `${name}\n${bucket}`;
  const nameKey = (name: string, from: string | null) => {
    const ownKey = from === null ? name : pair(name, addressBucket(from));
    return loggedInFrom.peek(ownKey) ? ownKey : name;
  };

  return {
    check(name, from) {
      const key = nameKey(name, from);
      // An address with an earlier login of the name ignores failures of others behind its proxy.
      const byAddressMs = from === null || key !== name ? 0 : addresses.waitMs(addressBucket(from));
      const waitMs = Math.max(names.waitMs(key), byAddressMs);
      if (waitMs === 0) return;
      const retryAfterS = Math.ceil(waitMs / 1000);
      const message = `Too many wrong passwords. Wait ${retryAfterS} seconds and try again; until then every login is refused.`;
      throw new Refusal('too_many_requests', message, { retryAfterS });
    },
    failed(name, from) {
      names.fill(nameKey(name, from));
      if (from !== null) addresses.fill(addressBucket(from));
    },
    succeeded(name, from) {
      if (from !== null) loggedInFrom.set(pair(name, addressBucket(from)), true);
      const waitMs = logins.waitMs(name);
      if (waitMs > 0) throw tooManyLogins(Math.ceil(waitMs / 1000));
      logins.fill(name);
    },
    tryCode(name, from) {
      const key = nameKey(name, from);
      const waitMs = codes.waitMs(key);
      if (waitMs > 0) throw tooManyCodes(Math.ceil(waitMs / 1000));
      codes.fill(key);
      return () => codes.forgive(key);
    },
    get size() {
      return names.size + addresses.size + logins.size + codes.size + loggedInFrom.size;
    },
  };
};

const tooManyCodes = (retryAfterS: number): Refusal => {
  const message = `Too many wrong codes of the second factor. Wait ${retryAfterS} seconds and try again, or ask an administrator to reset it.`;
  return new Refusal('too_many_requests', message, { retryAfterS });
};

const tooManyLogins = (retryAfterS: number): Refusal => {
  const { burst, forgiveMs } = loginsPerName;
  const message = `This account logs in too often: the limit is ${burst} logins at once, then one every ${forgiveMs / 1000} seconds. Wait ${retryAfterS} seconds and log in again, or use the token of an earlier login, which is valid for a day, or an API key.`;
  return new Refusal('too_many_requests', message, { retryAfterS });
};
