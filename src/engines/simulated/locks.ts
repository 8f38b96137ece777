/** One at a time for each key, in the order they came; waiting ends when the signal aborts. */
import { untilAborted } from './faults.ts';

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
        await Promise.race([before, untilAborted(signal)]);
        return letGo;
      } catch (givenUp) {
        // Our turn still comes, and is handed on at once.
        void before.then(letGo);
        throw givenUp;
      }
    },
  };
}
