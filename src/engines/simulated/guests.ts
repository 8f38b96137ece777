/** What our own programs listen on inside simulated instances: ports of theirs, and Unix sockets. It ends with each run. */
import type { Duplex } from 'node:stream';
import type { Container } from './container.ts';

export type Accept = (inside: Duplex) => void;

interface Guest {
  accept: Accept;
  /** Reached from within alone. */
  onLoopback: boolean;
}

export interface Guests {
  /** Answers with how to leave, or undefined where one listens already. */
  listen(container: Container, where: number | string, guest: Guest): (() => void) | undefined;
  at(container: Container, where: number | string): Guest | undefined;
  /** Its run is over. */
  forget(container: Container): void;
}

export function makeGuests(): Guests {
  const all = new Map<Container, Map<number | string, Guest>>();
  return {
    listen(container, where, guest) {
      const here = all.get(container) ?? new Map<number | string, Guest>();
      if (here.has(where)) return undefined;
      all.set(container, here.set(where, guest));
      return () => {
        if (here.get(where) !== guest) return;
        here.delete(where);
        if (here.size === 0 && all.get(container) === here) all.delete(container);
      };
    },
    at: (container, where) => all.get(container)?.get(where),
    forget: (container) => void all.delete(container),
  };
}
