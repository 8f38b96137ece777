/** Notifies holders of open connections, who check the access themselves. */
import type { RevocationSubject, Forwarding } from './gateway-types.ts';

export interface Revocations extends Pick<Forwarding, 'onRevoked'> {
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
