/**
 * # Placement
 *
 * Allocates the capacity of a region. CPU, memory and whole GPUs count as reserved, not as used:
 * free is what the engine has (`total`, from its probe) less what is reserved (`used`). Free
 * capacity is negative if the engine reports less than is reserved: nothing is revoked, nothing
 * more reserved.
 *
 * ## The queue
 * Launches and starts without capacity may wait. A region has one queue, in joining order, whatever
 * the clock did meanwhile. One rule holds for its entries and for newcomers, who come last:
 *
 *     An entry is placed if free capacity covers, for each resource it needs, its own need plus
 *     that of all earlier entries that are placed now or hold a reservation.
 *
 * The first entry of each account holds a reservation for `RESERVATION_MS` from when it joined, if
 * it fits into the region's total less what its account's own instances hold. Later entries never
 * delay a reservation: they take what is left beside it, or resources it does not need. A CPU type
 * passes an entry that waits for GPUs while CPU and memory suffice for both.
 *
 * Entries without a reservation may be passed. They stay in the queue and are placed before later
 * ones once they fit. So earlier entries delay nobody for longer than `RESERVATION_MS`, however
 * many they are and whatever they intend: all joined before, and a re-join goes to the end. The
 * price: a large request may see many small ones pass after that time.
 *
 * Entries of spot types come after all others, and hold no reservation.
 */
import { capacityOf, type Capacity, type InstanceType } from './catalog.ts';

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount'>;

export interface RegionCapacity {
  total: Capacity;
  used: Capacity;
}

const resources = ['cpuMilli', 'memoryMiB', 'gpus'] as const;

export const subtractCapacity = (from: Capacity, other: Capacity): Capacity => ({
  cpuMilli: from.cpuMilli - other.cpuMilli,
  memoryMiB: from.memoryMiB - other.memoryMiB,
  gpus: from.gpus - other.gpus,
});

export const zeroCapacity: Capacity = { cpuMilli: 0, memoryMiB: 0, gpus: 0 };

export const addCapacity = (one: Capacity, other: Capacity): Capacity => ({
  cpuMilli: one.cpuMilli + other.cpuMilli,
  memoryMiB: one.memoryMiB + other.memoryMiB,
  gpus: one.gpus + other.gpus,
});

/** Negative for capacity that the engine has lost. */
export const freeCapacity = ({ total, used }: RegionCapacity): Capacity => subtractCapacity(total, used);

export const fits = (need: Capacity, free: Capacity): boolean =>
  resources.every((resource) => need[resource] <= 0 || need[resource] <= free[resource]);

/** Longest reservation, from when the request joined the queue. */
export const RESERVATION_MS = 10 * 60_000;

export interface QueuedRequest {
  need: Capacity;
  ownerId: string;
  /** Holds no reservation, and comes after the others; default no. */
  isSpot?: boolean;
  /** Wall clock. A future time (the clock was set back) counts as expired. */
  joinedAtMs: number;
}

/** Walks the queue from its head, entry by entry: a long queue is not read to its end. */
export function walkQueue(region: RegionCapacity, nowMs: number) {
  let free = freeCapacity(region);
  let reservedCount = 0;
  const accountsWaiting = new Set<string>();
  const placedCapacity = new Map<string, Capacity>();
  const mayReserve = ({ need, ownerId, joinedAtMs, isSpot = false }: QueuedRequest): boolean =>
    !isSpot &&
    !fits(need, free) &&
    !accountsWaiting.has(ownerId) &&
    joinedAtMs <= nowMs &&
    nowMs - joinedAtMs < RESERVATION_MS &&
    fits(need, region.total);
  return {
    free: (): Capacity => free,
    /** Counts capacity that is about to be free. */
    add(capacity: Capacity): void {
      free = addCapacity(free, capacity);
    },
    reservedCount: (): number => reservedCount,
    mayReserve,
    /** Whether the next entry is placed now. `accountUse`: held by the account's instances. */
    visit(entry: QueuedRequest, accountUse: Capacity): boolean {
      const { need, ownerId } = entry;
      const isPlaced = fits(need, free);
      const own = addCapacity(accountUse, placedCapacity.get(ownerId) ?? zeroCapacity);
      const isReserved = mayReserve(entry) && fits(need, subtractCapacity(region.total, own));
      if (isPlaced) placedCapacity.set(ownerId, addCapacity(need, placedCapacity.get(ownerId) ?? zeroCapacity));
      else accountsWaiting.add(ownerId);
      if (isPlaced || isReserved) {
        free = subtractCapacity(free, need);
        reservedCount += 1;
      }
      return isPlaced;
    },
    isExhausted: (): boolean => free.cpuMilli <= 0 || free.memoryMiB <= 0,
  };
}

/** Example: `2 CPU cores and 1 GPU`, which `free` lacks for `need`. '' when it fits. */
export function capacityShortfall(need: Capacity, free: Capacity): string {
  const lack = (resource: keyof Capacity): number =>
    need[resource] <= 0 ? 0 : need[resource] - Math.max(0, free[resource]);
  const count = (number: number, one: string, more: string): string => `${number} ${number === 1 ? one : more}`;
  const parts = [
    lack('cpuMilli') > 0 ? count(lack('cpuMilli') / 1000, 'CPU core', 'CPU cores') : '',
    lack('memoryMiB') > 0 ? `${lack('memoryMiB')} MiB of memory` : '',
    lack('gpus') > 0 ? count(lack('gpus'), 'GPU', 'GPUs') : '',
  ];
  return parts.filter((words) => words !== '').join(' and ');
}

/** The closest fitting type: by GPU count (fewer before more), GPU name, CPU, memory, then size. */
export function nearestType<Type extends Sized & { gpuName: string }>(
  asked: Sized & { gpuName: string },
  types: readonly Type[],
  free: Capacity,
): Type | undefined {
  const rank = (type: Type): number[] => [
    type.gpuCount > asked.gpuCount ? 1 : 0,
    Math.abs(type.gpuCount - asked.gpuCount),
    type.gpuCount === 0 || type.gpuName === asked.gpuName ? 0 : 1,
    Math.abs(type.cpuCores - asked.cpuCores),
    Math.abs(type.memoryGB - asked.memoryGB),
    type.cpuCores,
    type.memoryGB,
  ];
  return types
    .filter((type) => fits(capacityOf(type), free))
    .map((type) => ({ type, rank: rank(type) }))
    .toSorted((a, b) => firstDifference(a.rank, b.rank))[0]?.type;
}

const firstDifference = (a: readonly number[], b: readonly number[]): number => {
  for (const [index, value] of a.entries()) {
    const difference = value - (b[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
};
