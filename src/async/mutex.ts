/** A mutex per key: operations on one key run one at a time, in the order of their calls. */
import { once } from './limits.ts';

export interface KeyedMutex<Key> {
  /**
   * Holds the key's mutex while `fn` runs. An abort ends the wait, never a running `fn`.
   * Not reentrant: a nested call with the same key deadlocks.
   */
  run<T>(key: Key, fn: () => Promise<T>, signal?: AbortSignal): Promise<T>;
  /** Resolves to an idempotent release function. Prefer `run`. */
  acquire(key: Key, signal?: AbortSignal): Promise<() => void>;
  /** Number of keys that are locked now. */
  readonly size: number;
}

export function makeKeyedMutex<Key>(options: WaitOptions = {}): KeyedMutex<Key> {
  const { abortError = reasonOf } = options;
  /** Waiters of each locked key. A key without an entry is free. */
  const queues = new Map<Key, WaitQueue>();

  /** Hands the mutex to the next waiter, so no newcomer can overtake it. */
  function release(key: Key, queue: WaitQueue): void {
    const [next] = queue;
    if (next) next();
    else queues.delete(key);
  }

  const mutex: KeyedMutex<Key> = {
    async acquire(key, signal) {
      if (signal?.aborted) throw abortError(signal);
      const locked = queues.get(key);
      const queue: WaitQueue = locked ?? new Set();
      if (locked) await enqueue(locked, signal, options);
      else queues.set(key, queue);
      return once(() => release(key, queue));
    },
    async run(key, fn, signal) {
      const unlock = await mutex.acquire(key, signal);
      try {
        return await fn();
      } finally {
        unlock();
      }
    },
    get size() {
      return queues.size;
    },
  };
  return mutex;
}

/** A FIFO of callers waiting for a mutex or a semaphore. Taking an entry means calling it. */
export type WaitQueue = Set<() => void>;

export interface WaitOptions {
  /** The error of a caller whose signal aborts while it waits. Default: the signal's reason. */
  abortError?: (signal: AbortSignal) => unknown;
}

export const reasonOf = ({ reason }: AbortSignal): unknown => reason;

/** Resolves when the entry is taken. An abort removes the entry, calls `onLeave` and rejects. */
export function enqueue(
  queue: WaitQueue,
  signal: AbortSignal | undefined,
  { abortError = reasonOf, onLeave = () => {} }: WaitOptions & { onLeave?: () => void },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const grant = (): void => {
      queue.delete(grant);
      signal?.removeEventListener('abort', leave);
      resolve();
    };
    const leave = (): void => {
      queue.delete(grant);
      onLeave();
      if (signal) reject(abortError(signal));
    };
    queue.add(grant);
    signal?.addEventListener('abort', leave, { once: true });
  });
}
