import { makeKeyedLimit, type Release } from '../../async/limits.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';

export interface ConcurrencyLimit {
  /** Throws `too_many_requests` at the limit. `max` replaces `perAccount`. */
  acquire(accountId: string, max?: number): Release;
  countOf(accountId: string): number;
  readonly count: number;
}

export interface ConcurrencyLimitOptions {
  perAccount: number;
  total: number;
  /** Permits that an account gets even above `total`: a few accounts cannot use up those of all. */
  share?: number;
  retryAfterS: number;
  /** Message of the refusal, from the number of permits held. */
  full: { mine(count: number, max: number): string; all(count: number): string };
}

export function makeConcurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const { perAccount, total, share = 0, retryAfterS, full } = options;
  const limit = makeKeyedLimit({ perKey: perAccount, total, share });
  return {
    countOf: limit.countOf,
    acquire(accountId, max = perAccount) {
      const release = limit.tryAcquire(accountId, max);
      if (release !== null) return release;
      const mine = limit.countOf(accountId);
      const message = mine >= max ? full.mine(mine, max) : full.all(limit.total);
      throw new Refusal('too_many_requests', message, { retryAfterS });
    },
    get count() {
      return limit.total;
    },
  };
}
