/**
 * Limits unauthenticated connections per address, per instance and in total. A newcomer is always
 * accepted, and the oldest connection of the largest group is closed: idle connections lock nobody
 * out, even when all come from one address, such as an engine's proxy.
 */

export interface UnauthenticatedConnection {
  instanceId: string;
  address: string;
  close: () => void;
}

export const unauthenticatedLimits = { perAddress: 32, perInstance: 64, total: 1_024 };

export type UnauthenticatedLimits = typeof unauthenticatedLimits;

export interface UnauthenticatedConnections {
  /** Returns the remove function, for a closed or authenticated connection. */
  add(connection: UnauthenticatedConnection): () => void;
}

export function makeUnauthenticatedConnections(limits: UnauthenticatedLimits): UnauthenticatedConnections {
  const all = new Set<UnauthenticatedConnection>();
  return {
    add(connection) {
      all.add(connection);
      const victim = connectionToClose([...all], connection, limits);
      if (victim !== null) {
        all.delete(victim);
        victim.close();
      }
      return () => void all.delete(connection);
    },
  };
}

/** Pure. `all` is sorted oldest first and includes the newcomer. */
export function connectionToClose(
  all: readonly UnauthenticatedConnection[],
  newcomer: UnauthenticatedConnection,
  limits: UnauthenticatedLimits,
): UnauthenticatedConnection | null {
  const atInstance = all.filter(({ instanceId }) => instanceId === newcomer.instanceId);
  const ofAddress = atInstance.filter(({ address }) => address === newcomer.address);
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
