/** Clock and random numbers of a simulated host; in tests virtual and seeded. */
import { setTimeout as delay } from 'node:timers/promises';
import { onAbort } from '../../async/abort.ts';

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

export interface VirtualClock extends Clock {
  /** Moves time, and wakes sleepers by time, then by order of arrival. */
  advance(ms: number): Promise<void>;
  /** Moves time from sleeper to sleeper until the work is done; returns its result. */
  run<T>(work: Promise<T>): Promise<T>;
  sleepers(): number;
}

interface Sleeper {
  wakeAtMs: number;
  wake: () => void;
}

/** Bounds event-loop turns that `run` grants to work that neither sleeps nor ends (real I/O). */
const idleTurns = 20_000;

export function makeVirtualClock(startMs = 0): VirtualClock {
  let nowMs = startMs;
  const asleep = new Set<Sleeper>();

  const next = (untilMs: number): Sleeper | undefined => {
    let first: Sleeper | undefined;
    for (const sleeper of asleep) {
      if (sleeper.wakeAtMs <= untilMs && (first === undefined || sleeper.wakeAtMs < first.wakeAtMs)) first = sleeper;
    }
    return first;
  };
  const wake = async (sleeper: Sleeper): Promise<void> => {
    nowMs = Math.max(nowMs, sleeper.wakeAtMs);
    asleep.delete(sleeper);
    sleeper.wake();
    await turn();
  };

  return {
    now: () => nowMs,
    sleepers: () => asleep.size,
    sleep(ms, signal) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        if (ms <= 0) return resolve();
        const sleeper: Sleeper = {
          wakeAtMs: nowMs + ms,
          wake: () => {
            unsubscribe();
            resolve();
          },
        };
        asleep.add(sleeper);
        const unsubscribe = onAbort(signal, () => {
          asleep.delete(sleeper);
          reject(signal.reason);
        });
      });
    },
    async advance(ms) {
      const untilMs = nowMs + ms;
      await turn();
      for (let sleeper = next(untilMs); sleeper !== undefined; sleeper = next(untilMs)) await wake(sleeper);
      nowMs = untilMs;
    },
    async run(work) {
      let settled = false;
      const settle = (): void => {
        settled = true;
      };
      work.then(settle, settle);
      for (let idle = 0; ;) {
        await turn();
        if (settled) return work;
        const sleeper = next(Infinity);
        if (sleeper !== undefined) {
          idle = 0;
          await wake(sleeper);
        } else if (++idle > idleTurns) {
          throw new Error('the work has not finished, and no timer is pending');
        }
      }
    },
  };
}

/** Lets everything awake reach its next sleep. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export type Random = () => number;

/** 32-bit generator: additive step and two multiply-shift mixes. */
export function makeRandom(seed: string): Random {
  let state = hash(seed);
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    return mix(state) / 2 ** 32;
  };
}

function hash(text: string): number {
  let sum = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  return sum >>> 0;
}

function mix(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return (bits ^ (bits >>> 15)) >>> 0;
}
