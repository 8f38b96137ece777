/**
 * Control's time. Whatever reads the clock or waits takes both from here, so that a simulation can give another time and go through
 * days of it in a second. Only `every` keeps the process alive: while control runs there is always one.
 */
import { setTimeout as delay } from 'node:timers/promises';

export interface Time {
  /** Epoch milliseconds, as the machine's date says: it may jump either way. */
  now(): number;
  /** Milliseconds that go on evenly whatever the date does, for how long something took. */
  elapsed(): number;
  /** Rejects when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** A signal that aborts after that long. */
  deadline(ms: number): AbortSignal;
  /** Does it once, after that long. Answers what calls it off. */
  after(ms: number, fn: () => void): () => void;
  /** Does it again and again. Answers what ends it. */
  every(ms: number, fn: () => void): () => void;
}

export const realTime: Time = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  sleep: (ms, signal) => delay(ms, undefined, { signal, ref: false }),
  deadline: (ms) => AbortSignal.timeout(ms),
  after(ms, fn) {
    const timer = setTimeout(fn, ms).unref();
    return () => clearTimeout(timer);
  },
  every(ms, fn) {
    const timer = setInterval(fn, ms);
    return () => clearInterval(timer);
  },
};
