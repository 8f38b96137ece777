import type { Capacity, Supply } from '../regions/catalog.ts';
import { addCapacity, addToRegion, fits, zeroCapacity } from '../regions/placement.ts';

/** Time to end the work, from the notice to the stop. */
export const DEFAULT_SPOT_GRACE_MS = 120_000;

export interface SpotInstance {
  id: string;
  held: Capacity;
  /** 0 before it is Running. */
  runningSinceMs: number;
  requestedAtMs: number;
}

/** The newest run first; an instance that does not run yet is newer than all that do. */
export function byNewestRun(one: SpotInstance, other: SpotInstance): number {
  const since = ({ runningSinceMs }: SpotInstance): number => runningSinceMs || Number.MAX_SAFE_INTEGER;
  return since(other) - since(one) || other.requestedAtMs - one.requestedAtMs || (one.id < other.id ? -1 : 1);
}

const sum = (instances: readonly SpotInstance[]): Capacity =>
  instances.reduce((total, { held }) => addCapacity(total, held), zeroCapacity);

/**
 * Chooses whom to reclaim, the newest run first, so that the need fits; null: not even all suffice.
 * None is chosen whose capacity does not help, or is not needed once the others are reclaimed.
 */
export function chooseReclaims<Spot extends SpotInstance>(
  need: Capacity,
  free: Supply,
  spots: readonly Spot[],
): Spot[] | null {
  const fitsWith = (reclaimed: readonly Spot[]): boolean => fits(need, addToRegion(free, sum(reclaimed)));
  const chosen: Spot[] = [];
  for (const spot of spots.toSorted(byNewestRun)) {
    if (fitsWith(chosen)) break;
    chosen.push(spot);
  }
  if (!fitsWith(chosen)) return null;
  return chosen.toReversed().reduce((kept, spot) => {
    const without = kept.filter((one) => one !== spot);
    return fitsWith(without) ? without : kept;
  }, chosen);
}
