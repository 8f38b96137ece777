/** Retry loops with exponential back-off. */
import { setTimeout as delay } from 'node:timers/promises';

export interface BackOffOptions {
  firstMs: number;
  /** Default: `firstMs`, which makes the pause constant. */
  maxMs?: number;
  /** Share of each pause that is random, 0 to 1. Default: 0. */
  jitter?: number;
  random?: () => number;
}

export interface RetryOptions extends BackOffOptions {
  signal: AbortSignal;
  onError?: (error: unknown, pauseMs: number) => void;
  /** May reject when the signal aborts. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

export interface BackOff {
  /** The next pause, in milliseconds; each is twice the last. */
  next(): number;
  reset(): void;
}

export function makeBackOff({ firstMs, maxMs = firstMs, jitter = 0, random = Math.random }: BackOffOptions): BackOff {
  let pauseMs = firstMs;
  return {
    next() {
      const thisMs = pauseMs;
      pauseMs = Math.min(maxMs, pauseMs * 2);
      return jitter === 0 ? thisMs : thisMs * (1 - jitter * random());
    },
    reset() {
      pauseMs = firstMs;
    },
  };
}

/**
 * Calls `attempt` until success. A connected attempt calls `reset`: the next failure
 * starts from the first pause. An abort resolves to undefined, after the running attempt.
 */
export async function retry<T>(
  attempt: (reset: () => void) => Promise<T>,
  { signal, onError = () => {}, sleep = realSleep, ...options }: RetryOptions,
): Promise<T | undefined> {
  const backOff = makeBackOff(options);
  while (!signal.aborted) {
    try {
      return await attempt(backOff.reset);
    } catch (error) {
      if (signal.aborted) return undefined;
      const pauseMs = backOff.next();
      onError(error, pauseMs);
      await sleep(pauseMs, signal).catch(() => {});
    }
  }
  return undefined;
}

const realSleep = (ms: number, signal: AbortSignal): Promise<void> => delay(ms, undefined, { signal });
