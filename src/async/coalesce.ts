/**
 * Collects invalidated keys and checks them in batches, one batch at a time. Keys that arrive
 * during a check form the next batch: many invalidations cause few checks, and none is missed.
 * Returns the function to call for each invalidated key. `check` must not reject.
 */
export function makeRechecker<Key>(check: (keys: ReadonlySet<Key>) => Promise<void>): (key: Key) => void {
  let pending = new Set<Key>();
  let isRunning = false;

  async function run(): Promise<void> {
    if (isRunning) return;
    isRunning = true;
    try {
      while (pending.size > 0) {
        const batch = pending;
        pending = new Set();
        await check(batch);
      }
    } finally {
      isRunning = false;
    }
  }

  return (key) => {
    pending.add(key);
    void run();
  };
}

/** Calls `fn`, which must not reject, for one value at a time; a value waits once. */
export function makeCoalescingQueue<T>(fn: (value: T) => Promise<unknown>): {
  add(value: T): void;
  replace(value: T): void;
} {
  const waiting = new Set<T>();
  let isRunning = false;
  const drain = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    try {
      for (const next of waiting) {
        waiting.delete(next);
        await fn(next);
      }
    } finally {
      isRunning = false;
    }
  };
  const add = (value: T): void => {
    waiting.add(value);
    void drain();
  };
  return {
    add,
    replace(value) {
      waiting.clear();
      add(value);
    },
  };
}

/** One call of `fn` at a time. Callers during a call share the next one. */
export function makeSharedCalls<T>(fn: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  let next: Promise<T> | undefined;
  function begin(): Promise<T> {
    next = undefined;
    const call = fn().finally(() => {
      running = undefined;
    });
    running = call;
    return call;
  }
  return () => {
    if (next !== undefined) return next;
    if (running === undefined) return begin();
    next = running.then(begin, begin);
    return next;
  };
}
