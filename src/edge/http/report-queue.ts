/**
 * Queue of expensive reads: one of an account at a time, few of all, and accounts take turns. Each
 * begins in a turn of the event loop of its own, because reads of SQLite end within one turn.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { makeKeyedLimit } from '../../async/limits.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import type { Route } from '../../contract/route.ts';
import { Refusal } from '../../domain/refusal.ts';

const AT_ONCE = 4;
const PER_ACCOUNT = 1;
/** Requests of an account that wait or run. */
const MAX_OF_ACCOUNT = 16;

/** Statements, usage, exports, forecasts and quotes. */
export const isReport = ({ path, reads }: Pick<Route, 'path' | 'reads'>): boolean =>
  reads && /^\/(?:(?:admin\/)?billing\/|instance\/quote$)/.test(path);

export interface ReportQueue {
  /** Throws `too_many_requests` when too many of the account wait. */
  run<T>(accountId: string, read: () => Promise<T>): Promise<T>;
}

export function makeReportQueue(): ReportQueue {
  const semaphore = makeSemaphore(AT_ONCE, { perOwner: PER_ACCOUNT });
  const limit = makeKeyedLimit({ total: Infinity, perKey: MAX_OF_ACCOUNT });
  return {
    async run(accountId, read) {
      const release = limit.tryAcquire(accountId);
      if (release === null)
        throw new Refusal(
          'too_many_requests',
          `${MAX_OF_ACCOUNT} reports and quotes of this account are under way, its limit; wait for their answers`,
          { retryAfterS: 1 },
        );
      try {
        return await semaphore.run(() => nextTurn().then(read), { owner: accountId });
      } finally {
        release();
      }
    },
  };
}
