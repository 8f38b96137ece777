/** One at a time for each key, in the order they came; waiting ends when the signal aborts. */
import { givenUp } from './faults.ts';

export interface Locks {
  /** Answers with what lets go. */
  take(key: string, signal: AbortSignal): Promise<() => void>;
}

export function makeLocks(): Locks {
  const tails = new Map<string, Promise<void>>();
  return {
    async take(key, signal) {
      const before = tails.get(key);
      const { promise: mine, resolve: open } = Promise.withResolvers<void>();
      tails.set(key, mine);
      const letGo = (): void => {
        if (tails.get(key) === mine) tails.delete(key);
        open();
      };
      if (before === undefined) return letGo;
      try {
        await turn(before, signal);
        return letGo;
      } catch (fault) {
        // Our turn still comes, and is handed on at once.
        void before.then(letGo);
        throw fault;
      }
    },
  };
}

function turn(before: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(givenUp(signal));
    if (signal.aborted) return giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    void before.then(() => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    });
  });
}
