/** Clock and timers of control; simulations replace them. Only `every` keeps the process alive. */
import { setTimeout as delay } from 'node:timers/promises';
import { countingRows } from '../../async/rows-read.ts';

export interface Time {
  /** Epoch milliseconds of the system date, which may jump either way. */
  now(): number;
  /** Monotonic milliseconds, for durations. */
  elapsed(): number;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  deadline(ms: number): AbortSignal;
  after(ms: number, fn: () => void): () => void;
  every(ms: number, fn: () => void): () => void;
}

export const realTime: Time = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  sleep: (ms, signal) => delay(ms, undefined, { signal, ref: false }),
  deadline: (ms) => AbortSignal.timeout(ms),
  after(ms, fn) {
    // Timers read for many requests.
    const timer = setTimeout(() => countingRows(null, fn), ms).unref();
    return () => clearTimeout(timer);
  },
  every(ms, fn) {
    const timer = setInterval(fn, ms);
    return () => clearInterval(timer);
  },
};

/** SQLite reads on this thread: long sums let other requests in between. */
export const nextTurn = (time: Pick<Time, 'after'>): Promise<void> =>
  new Promise((resolve) => void time.after(0, resolve));
