/**
 * A queue in front of what takes only a few at once, such as an engine's calls: owners take turns, so that two hundred launches of one
 * don't keep the one launch of another waiting. Where a deed may last, `widthEach` keeps room for others beside those of one owner.
 */
export interface FairQueue {
  /** Runs `deed` when it is the owner's turn. Rejects with the signal's reason when it is aborted while still waiting. */
  run<T>(owner: string, signal: AbortSignal, deed: () => Promise<T>): Promise<T>;
}

interface Waiter {
  go: () => void;
}

export function makeFairQueue(width: number, widthEach = width): FairQueue {
  /** Owners in the order of their turns; a Map keeps insertion order, and an owner that was served goes to its end. */
  const waiting = new Map<string, Waiter[]>();
  /** How many of each owner run, of those who have any. */
  const runningOf = new Map<string, number>();
  let running = 0;

  const next = (): void => {
    for (const [owner, waiters] of waiting) {
      if (running >= width) return;
      const mine = runningOf.get(owner) ?? 0;
      if (mine >= widthEach) continue;
      const waiter = waiters.shift();
      waiting.delete(owner);
      // At the end: this walk comes by again.
      if (waiters.length > 0) waiting.set(owner, waiters);
      if (!waiter) continue;
      running += 1;
      runningOf.set(owner, mine + 1);
      waiter.go();
    }
  };

  const done = (owner: string): void => {
    running -= 1;
    const mine = runningOf.get(owner) ?? 1;
    if (mine > 1) runningOf.set(owner, mine - 1);
    else runningOf.delete(owner);
    next();
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
        done(owner);
      }
    },
  };
}
