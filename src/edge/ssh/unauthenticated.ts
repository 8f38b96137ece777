/**
 * Those who have connected and not proven who they are: so many may be there at once, of one address, at one instance, and at all. Who comes
 * is always let try, and the oldest of the largest crowd goes for it. So strangers who only hold connections shut nobody out, also where all
 * come from one address, as through an engine's own proxy; whoever knows their key is through within a moment.
 */

export interface UnauthenticatedConnection {
  instanceId: string;
  address: string;
  /** Cuts the connection. */
  close: () => void;
}

export interface UnauthenticatedLimits {
  perAddress: number;
  perInstance: number;
  total: number;
}

export const unauthenticatedLimits: UnauthenticatedLimits = { perAddress: 32, perInstance: 64, total: 1_024 };

export interface UnauthenticatedConnections {
  /** Answers what takes the stranger out again: gone, or somebody known. */
  add(stranger: UnauthenticatedConnection): () => void;
}

export function makeUnauthenticatedConnections(limits: UnauthenticatedLimits): UnauthenticatedConnections {
  // In the order of their coming.
  const all = new Set<UnauthenticatedConnection>();
  return {
    add(stranger) {
      all.add(stranger);
      const one = connectionToClose([...all], stranger, limits);
      if (one !== null) {
        all.delete(one);
        one.close();
      }
      return () => void all.delete(stranger);
    },
  };
}

/** Pure. `all`: the oldest first, with the one who has just come. */
export function connectionToClose(
  all: readonly UnauthenticatedConnection[],
  comer: UnauthenticatedConnection,
  limits: UnauthenticatedLimits,
): UnauthenticatedConnection | null {
  const atInstance = all.filter(({ instanceId }) => instanceId === comer.instanceId);
  const ofAddress = atInstance.filter(({ address }) => address === comer.address);
  if (ofAddress.length > limits.perAddress) return ofAddress[0] ?? null;
  if (atInstance.length > limits.perInstance) return oldestOfLargestGroup(atInstance, ({ address }) => address);
  if (all.length > limits.total) return oldestOfLargestGroup(all, ({ instanceId }) => instanceId);
  return null;
}

function oldestOfLargestGroup(
  all: readonly UnauthenticatedConnection[],
  groupOf: (one: UnauthenticatedConnection) => string,
): UnauthenticatedConnection | null {
  const groups = Map.groupBy(all, groupOf);
  const [largest] = [...groups.values()].toSorted((a, b) => b.length - a.length);
  return largest?.[0] ?? null;
}
