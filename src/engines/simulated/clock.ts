/** Clock and random numbers of a simulated host; virtual and seeded in tests. */
import { setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  now(): number;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** Longest delay of a Node timer; longer ones fire at once. */
const longestTimerMs = 2 ** 31 - 1;

export const realClock: Clock = {
  now: () => Date.now(),
  async sleep(ms, signal) {
    for (let leftMs = ms; leftMs > 0; leftMs -= longestTimerMs) {
      await delay(Math.min(leftMs, longestTimerMs), undefined, { signal });
    }
  },
};

export type Random = () => number;
