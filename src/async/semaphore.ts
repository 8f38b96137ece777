/**
 * A semaphore, fair between owners: waiting owners are served round-robin, so two hundred calls of
 * one owner do not delay the single call of another. Calls of one owner run in order.
 */
import { enqueue, reasonOf, type WaitOptions, type WaitQueue } from './mutex.ts';

export interface Semaphore {
  /** Runs `fn` once a permit is free. An abort ends the wait and `fn` is never called. */
  run<T>(fn: () => Promise<T>, options?: { owner?: string; signal?: AbortSignal | undefined }): Promise<T>;
  /** Number of calls that wait for a permit. */
  readonly waiting: number;
}

export interface SemaphoreOptions extends WaitOptions {
  /** Permits that one owner may hold. Below `permits` it reserves capacity for the other owners. */
  perOwner?: number;
}

export function makeSemaphore(permits: number, options: SemaphoreOptions = {}): Semaphore {
  const { perOwner = permits, abortError = reasonOf } = options;
  /** Owners in the order in which they are served next. Never holds an empty queue. */
  const waiting = new Map<string, WaitQueue>();
  /** Permits held by each owner. Never holds a zero. */
  const heldBy = new Map<string, number>();
  let held = 0;

  function grantNext(): void {
    for (const [owner, queue] of waiting) {
      if (held >= permits) return;
      const count = heldBy.get(owner) ?? 0;
      if (count >= perOwner) continue;
      const [next] = queue;
      held += 1;
      heldBy.set(owner, count + 1);
      next?.();
      // Reinserted at the end: this loop visits the owner again after all others.
      waiting.delete(owner);
      if (queue.size > 0) waiting.set(owner, queue);
    }
  }

  function acquire(owner: string, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(abortError(signal));
    const queue: WaitQueue = waiting.get(owner) ?? new Set();
    const onLeave = (): void => {
      if (queue.size === 0 && waiting.get(owner) === queue) waiting.delete(owner);
    };
    const granted = enqueue(queue, signal, { abortError, onLeave });
    waiting.set(owner, queue);
    grantNext();
    return granted;
  }

  function release(owner: string): void {
    held -= 1;
    const count = heldBy.get(owner) ?? 1;
    if (count > 1) heldBy.set(owner, count - 1);
    else heldBy.delete(owner);
    grantNext();
  }

  return {
    async run(fn, { owner = '', signal } = {}) {
      await acquire(owner, signal);
      try {
        return await fn();
      } finally {
        release(owner);
      }
    },
    get waiting() {
      return waiting.values().reduce((sum, queue) => sum + queue.size, 0);
    },
  };
}
