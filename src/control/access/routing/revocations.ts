/** Notifies holders of open connections, who check the access themselves. */
import type { RevocationSubject, Forwarding } from './gateway-types.ts';

export interface Revocations extends Pick<Forwarding, 'onRevoked'> {
  publish(ended: RevocationSubject): void;
}

export function makeRevocations(): Revocations {
  const listeners = new Set<(ended: RevocationSubject) => void>();
  return {
    publish(ended) {
      for (const listener of listeners) listener(ended);
    },
    onRevoked(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
