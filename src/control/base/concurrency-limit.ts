import { makeKeyedLimit, type Release } from '../../async/limits.ts';
import { Refusal } from '../../domain/refusal.ts';

export interface ConcurrencyLimit {
  /** Throws `too_many_requests` at the limit. */
  acquire(accountId: string): Release;
  readonly count: number;
}

export interface ConcurrencyLimitOptions {
  perAccount: number;
  total: number;
  retryAfterS: number;
  /** Message of the refusal, from the number of permits held. */
  full: { mine(count: number): string; all(count: number): string };
}

export function makeConcurrencyLimit(options: ConcurrencyLimitOptions): ConcurrencyLimit {
  const { perAccount, total, retryAfterS, full } = options;
  const limit = makeKeyedLimit({ perKey: perAccount, total });
  return {
    acquire(accountId) {
      const release = limit.tryAcquire(accountId);
      if (release !== null) return release;
      const mine = limit.countOf(accountId);
      const message = mine >= perAccount ? full.mine(mine) : full.all(limit.total);
      throw new Refusal('too_many_requests', message, { retryAfterS });
    },
    get count() {
      return limit.total;
    },
  };
}
