/**
 * Clock and scheduler of a simulated world. Runs the earliest task, draws the order of simultaneous
 * tasks, and continues once the process is idle. A run depends on its seed only.
 */
import type { Random } from '../../src/engines/simulated/clock.ts';
import { makeRandom } from '../fixtures/seeded-random.ts';

interface Task {
  atMs: number;
  /** Order of simultaneous tasks. */
  order: number;
  serial: number;
  fn: (() => void) | null;
}

export class Schedule {
  readonly random: Random;
  readonly trace: string[] = [];
  nowMs = 0;
  done = 0;
  readonly #order: Random;
  readonly #heap: Task[] = [];
  #serial = 0;

  constructor(seed: string) {
    this.random = makeRandom(seed);
    this.#order = makeRandom(`${seed} turns`);
  }

  /** Returns the cancel function. */
  later(ms: number, fn: () => void): () => void {
    const task: Task = { atMs: this.nowMs + Math.max(0, ms), order: this.#order(), serial: this.#serial++, fn };
    this.#push(task);
    return () => (task.fn = null);
  }

  /** Null when no task is left. */
  nextAtMs(): number | null {
    while (this.#heap[0]?.fn === null) this.#pop();
    return this.#heap[0]?.atMs ?? null;
  }

  /** Runs the next task, and waits until the process is idle. */
  async step(): Promise<void> {
    const task = this.#pop();
    if (!task?.fn) return;
    this.nowMs = Math.max(this.nowMs, task.atMs);
    this.done += 1;
    task.fn();
    await quiet();
  }

  say(text: string): void {
    this.trace.push(`${(this.nowMs / 1000).toFixed(3)} ${text}`);
  }

  between(from: number, to: number): number {
    return Math.floor(from + this.random() * (to - from + 1));
  }

  /** Log-uniform: short durations are as likely as long ones. */
  spread(fromMs: number, toMs: number): number {
    return Math.round(fromMs * (toMs / fromMs) ** this.random());
  }

  chance(share: number): boolean {
    return this.random() < share;
  }

  oneOf<T>(things: readonly T[]): T {
    const found = things[Math.floor(this.random() * things.length)];
    if (found === undefined) throw new Error('nothing to draw from');
    return found;
  }

  uuid(): string {
    const hex = Array.from({ length: 4 }, () =>
      Math.floor(this.random() * 2 ** 32)
        .toString(16)
        .padStart(8, '0'),
    ).join('');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`;
  }

  bytes(size: number): Uint8Array {
    return Uint8Array.from({ length: size }, () => Math.floor(this.random() * 256));
  }

  #before(a: Task, b: Task): boolean {
    if (a.atMs !== b.atMs) return a.atMs < b.atMs;
    return a.order === b.order ? a.serial < b.serial : a.order < b.order;
  }

  #push(task: Task): void {
    const heap = this.#heap;
    heap.push(task);
    for (let at = heap.length - 1; at > 0;) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (!above || !this.#before(task, above)) break;
      heap[at] = above;
      heap[parent] = task;
      at = parent;
    }
  }

  #pop(): Task | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (!first || !last || first === last) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const [left, right] = [heap[child], heap[child + 1]];
      if (!left) break;
      if (right && this.#before(right, left)) child += 1;
      const least = heap[child];
      if (!least || !this.#before(least, last)) break;
      heap[at] = least;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

const realImmediate = globalThis.setImmediate;
let immediates = 0;

/**
 * Resolves when the process is idle: promises and ticks run before the event loop turns; immediates
 * are counted.
 */
async function quiet(): Promise<void> {
  do await new Promise<void>((resolve) => void realImmediate(resolve));
  while (immediates > 0);
}

/**
 * Call once per thread. Any use of real time or randomness throws: such a run could not be
 * replayed.
 */
export function forbidRealTime(): void {
  const forbidden = (what: string) => (): never => {
    throw new Error(`${what} in a simulation: take the time, or the random number, that is given`);
  };
  Date.now = forbidden('Date.now');
  Math.random = forbidden('Math.random');
  AbortSignal.timeout = forbidden('AbortSignal.timeout');
  const timers = { setTimeout: forbidden('setTimeout'), setInterval: forbidden('setInterval') };
  Object.assign(globalThis, timers, {
    setImmediate: (fn: (...given: unknown[]) => void, ...given: unknown[]) => {
      immediates += 1;
      return realImmediate(() => {
        immediates -= 1;
        fn(...given);
      });
    },
  });
}
