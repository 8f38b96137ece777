/**
 * Log of control: the probe reports an engine that does not answer, once for everybody who calls
 * the engine; the space reserve reports a full disk, once for everybody who writes. What else fails
 * meanwhile for that reason is a line at level debug without a stack.
 */
import { makeBackOff } from '../../async/retry.ts';
import { isEngineAway } from '../../domain/regions/engine-fault.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { reasonText } from '../../domain/kernel/unknown-error.ts';
import { isStorageFull } from '../../store/db/errors.ts';
import type { SpaceReserve } from '../../store/db/space-reserve.ts';
import type { Log } from './logger.ts';
import type { Regions } from './regions.ts';
import type { Time } from './time.ts';

const FIRST_REMINDER_MS = 60_000;
const MAX_REMINDER_MS = 3_600_000;

export function makeOutageLog(
  log: Log,
  { regions, reserve }: { regions: Pick<Regions, 'all'>; reserve: SpaceReserve },
): Log {
  const write =
    (level: keyof Log): Log[keyof Log] =>
    ({ err, ...facts }, text) => {
      const isOutOfSpace = isStorageFull(err) || (err instanceof Refusal && err.code === 'storage_full');
      if (!isOutOfSpace && !isEngineAway(err)) return log[level](err === undefined ? facts : { ...facts, err }, text);
      const isReported = isOutOfSpace ? reserve.isFull() : regions.all().some(({ health }) => !health.answers);
      log[isReported ? 'debug' : level]({ ...facts, reason: reasonText(err) }, text);
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

export interface Reminder {
  /** True at first, then after 1, 2, 4 … minutes, at least every hour. */
  isDue(): boolean;
}

/** Says when to log again a state that lasts. */
export function makeReminder({ elapsed }: Pick<Time, 'elapsed'>): Reminder {
  const pauses = makeBackOff({ firstMs: FIRST_REMINDER_MS, maxMs: MAX_REMINDER_MS });
  let dueMs = -Infinity;
  return {
    isDue() {
      if (elapsed() < dueMs) return false;
      dueMs = elapsed() + pauses.next();
      return true;
    },
  };
}
