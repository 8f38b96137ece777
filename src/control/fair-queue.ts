/**
 * A queue in front of an engine that takes only a few calls at once: owners take turns, so that two hundred launches of one
 * don't keep the one launch of another waiting.
 */
export interface FairQueue {
  /** Runs `deed` when it is the owner's turn. Rejects with the signal's reason when it is aborted while still waiting. */
  run<T>(owner: string, signal: AbortSignal, deed: () => Promise<T>): Promise<T>;
}

interface Waiter {
  go: () => void;
}

export function makeFairQueue(width: number): FairQueue {
  /** Owners in the order of their turns; a Map keeps insertion order, and an owner that was served goes to its end. */
  const waiting = new Map<string, Waiter[]>();
  let running = 0;

  const next = (): void => {
    while (running < width) {
      const first = waiting.entries().next();
      if (first.done) return;
      const [owner, waiters] = first.value;
      const waiter = waiters.shift();
      waiting.delete(owner);
      if (waiters.length > 0) waiting.set(owner, waiters);
      if (!waiter) continue;
      running += 1;
      waiter.go();
    }
  };

  const turn = (owner: string, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const leave = () => {
        const waiters = waiting.get(owner);
        if (waiters)
          waiting.set(
            owner,
            waiters.filter((other) => other !== waiter),
          );
        reject(signal.reason);
      };
      const waiter: Waiter = {
        go() {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      if (signal.aborted) return reject(signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      waiting.set(owner, [...(waiting.get(owner) ?? []), waiter]);
      next();
    });

  return {
    async run(owner, signal, deed) {
      await turn(owner, signal);
      try {
        return await deed();
      } finally {
        running -= 1;
        next();
      }
    },
  };
}
