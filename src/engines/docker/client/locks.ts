/** Who may go when: a gate that lets some through at once, and locks that let one through for each key. */
import { faultOf } from './faults.ts';

export type Gate = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/** At most `limit` at once, first come first served; who waits can be called off by the signal. */
export function makeGate(limit: number): Gate {
  let inside = 0;
  const waiting: (() => void)[] = [];
  return async (signal, work) => {
    if (inside >= limit) {
      const turn = Promise.withResolvers<void>();
      const leave = (): void => {
        const at = waiting.indexOf(turn.resolve);
        if (at !== -1) waiting.splice(at, 1);
        turn.reject(faultOf(signal.reason));
      };
      if (signal.aborted) throw faultOf(signal.reason);
      waiting.push(turn.resolve);
      signal.addEventListener('abort', leave, { once: true });
      try {
        await turn.promise; // whoever leaves hands its place over, so `inside` stays
      } finally {
        signal.removeEventListener('abort', leave);
      }
    } else inside++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) inside--;
      else next();
    }
  };
}

/** One at a time for each key. */
export function makeLocks<Key>(): <T>(key: Key, signal: AbortSignal, work: () => Promise<T>) => Promise<T> {
  const gates = new Map<Key, { gate: Gate; users: number }>();
  return async (key, signal, work) => {
    const entry = gates.get(key) ?? { gate: makeGate(1), users: 0 };
    gates.set(key, entry);
    entry.users++;
    try {
      return await entry.gate(signal, work);
    } finally {
      if (--entry.users === 0) gates.delete(key);
    }
  };
}
