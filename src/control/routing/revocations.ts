/** Tells who holds connections open where something has ended that may have let a visitor in. What to think of it is looked up there. */
import type { RevocationSubject, Forwarding } from './gateway-types.ts';

export interface Revocations extends Pick<Forwarding, 'onRevoked'> {
  /** After the commit. */
  publish(ended: RevocationSubject): void;
}

export function makeRevocations(): Revocations {
  const looks = new Set<(ended: RevocationSubject) => void>();
  return {
    publish(ended) {
      for (const look of looks) look(ended);
    },
    onRevoked(look) {
      looks.add(look);
      return () => void looks.delete(look);
    },
  };
}
