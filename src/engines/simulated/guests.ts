/**
 * Listeners of Berth's programs inside simulated instances: ports and Unix sockets, for one run.
 */
import type { Duplex } from 'node:stream';
import type { Container } from './container.ts';

export type Accept = (inside: Duplex) => void;

interface Guest {
  accept: Accept;
  onLoopback: boolean;
}

export interface Guests {
  /** Returns a function that stops listening, or undefined if the address is in use. */
  listen(container: Container, where: number | string, guest: Guest): (() => void) | undefined;
  at(container: Container, where: number | string): Guest | undefined;
  closeAll(container: Container): void;
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
    closeAll: (container) => void all.delete(container),
  };
}
