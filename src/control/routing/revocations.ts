/** Tells who holds connections open where something has ended that may have let a visitor in. What to think of it is looked up there. */
import type { Ended, Forwarding } from './gateway-types.ts';

export interface Endings extends Pick<Forwarding, 'onEnded'> {
  /** After the commit. */
  tell(ended: Ended): void;
}

export function makeEndings(): Endings {
  const looks = new Set<(ended: Ended) => void>();
  return {
    tell(ended) {
      for (const look of looks) look(ended);
    },
    onEnded(look) {
      looks.add(look);
      return () => void looks.delete(look);
    },
  };
}
