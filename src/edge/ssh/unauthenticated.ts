/**
 * Those who have connected and not proven who they are: so many may be there at once, of one address, at one instance, and at all. Who comes
 * is always let try, and the oldest of the largest crowd goes for it. So strangers who only hold connections shut nobody out, also where all
 * come from one address, as through an engine's own proxy; whoever knows their key is through within a moment.
 */

export interface Stranger {
  instanceId: string;
  address: string;
  /** Cuts the connection. */
  leave: () => void;
}

export interface StrangerLimits {
  ofAddress: number;
  ofInstance: number;
  ofAll: number;
}

export const strangerLimits: StrangerLimits = { ofAddress: 32, ofInstance: 64, ofAll: 1_024 };

export interface Strangers {
  /** Answers what takes the stranger out again: gone, or somebody known. */
  add(stranger: Stranger): () => void;
}

export function makeStrangers(limits: StrangerLimits): Strangers {
  // In the order of their coming.
  const all = new Set<Stranger>();
  return {
    add(stranger) {
      all.add(stranger);
      const one = whoGoes([...all], stranger, limits);
      if (one !== null) {
        all.delete(one);
        one.leave();
      }
      return () => void all.delete(stranger);
    },
  };
}

/** Pure. `all`: the oldest first, with the one who has just come. */
export function whoGoes(all: readonly Stranger[], comer: Stranger, limits: StrangerLimits): Stranger | null {
  const atInstance = all.filter(({ instanceId }) => instanceId === comer.instanceId);
  const ofAddress = atInstance.filter(({ address }) => address === comer.address);
  if (ofAddress.length > limits.ofAddress) return ofAddress[0] ?? null;
  if (atInstance.length > limits.ofInstance) return oldestOfMost(atInstance, ({ address }) => address);
  if (all.length > limits.ofAll) return oldestOfMost(all, ({ instanceId }) => instanceId);
  return null;
}

function oldestOfMost(all: readonly Stranger[], groupOf: (one: Stranger) => string): Stranger | null {
  const groups = Map.groupBy(all, groupOf);
  const [largest] = [...groups.values()].toSorted((a, b) => b.length - a.length);
  return largest?.[0] ?? null;
}
