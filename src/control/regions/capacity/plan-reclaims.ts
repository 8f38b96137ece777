/** Which spot instances the requests at full price of a region need reclaimed, in queue order. */
import type { Capacity } from '../../../domain/regions/catalog.ts';
import { addCapacity, fits, negative, walkQueue, zeroCapacity } from '../../../domain/regions/placement.ts';
import { chooseReclaims } from '../../../domain/compute/spot.ts';
import type { Db } from '../../../store/store.ts';
import { capacityUsedBy, queueEntries } from '../../../store/tables/capacity.ts';
import type { RegionWithUsage } from '../../../store/tables/catalog.ts';
import { spotHolders, type SpotHolder } from '../../../store/tables/tide-and-spot.ts';

interface Reclaims {
  reclaims: SpotHolder[];
  /** Whether the newcomer, behind the queue, fits once they have stopped. */
  newcomerFits: boolean;
}

const heldBy = (spots: readonly SpotHolder[]): Capacity =>
  spots.reduce((sum, { held }) => addCapacity(sum, held), zeroCapacity);

/** Capacity of spot instances that stop already counts as free. */
export async function planReclaims(
  db: Db,
  { region, total, used }: RegionWithUsage,
  nowMs: number,
  newcomer: { need: Capacity; ownerId: string } | null,
): Promise<Reclaims> {
  const holders = await spotHolders(db, region.id);
  if (holders.length === 0) return { reclaims: [], newcomerFits: false };
  let left = holders.filter(({ isEnding }) => !isEnding);
  const reclaims: SpotHolder[] = [];
  const ending = heldBy(holders.filter(({ isEnding }) => isEnding));
  const queue = walkQueue({ total, used: addCapacity(used, negative(ending)) }, nowMs);
  const reclaimFor = (need: Capacity): void => {
    const chosen = chooseReclaims(need, queue.free(), left) ?? [];
    reclaims.push(...chosen);
    left = left.filter((spot) => !chosen.includes(spot));
    queue.add(heldBy(chosen));
  };
  for await (const entry of queueEntries(db, region.id)) {
    if (entry.isSpot) continue;
    reclaimFor(entry.need);
    const usedByAccount = queue.mayReserve(entry) ? await capacityUsedBy(db, region.id, entry.ownerId) : zeroCapacity;
    queue.visit(entry, usedByAccount);
    if (left.length === 0 && queue.isExhausted()) break;
  }
  if (newcomer === null) return { reclaims, newcomerFits: false };
  reclaimFor(newcomer.need);
  return { reclaims, newcomerFits: fits(newcomer.need, queue.free()) };
}
