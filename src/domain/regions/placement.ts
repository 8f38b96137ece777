/**
 * # Placement
 *
 * Allocates the capacity of a region. CPU, memory and GPUs of each name count as reserved, not as
 * used: free is what the engine has (`total`, from its probe) less what is reserved (`used`). Free
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
 * Entries without GPUs are placed in what the reserve for free GPUs (`reservePerGpu`) leaves.
 *
 * Entries of spot types come after all others, and hold no reservation.
 */
import {
  capacityOf,
  countGpus,
  gpusNamed,
  isNoModel,
  type Capacity,
  type GpuCounts,
  type Supply,
  type InstanceType,
} from './catalog.ts';

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount' | 'gpuName'>;

export interface RegionCapacity {
  total: Supply;
  used: Capacity;
}

export const zeroCapacity: Capacity = { cpuMilli: 0, memoryMiB: 0, gpus: {} };

function addGpus(one: GpuCounts, other: GpuCounts): GpuCounts {
  const names = Object.keys(other);
  if (names.length === 0) return one;
  return { ...one, ...Object.fromEntries(names.map((name) => [name, gpusNamed(one, name) + gpusNamed(other, name)])) };
}

export const addCapacity = (one: Capacity, other: Capacity): Capacity => ({
  cpuMilli: one.cpuMilli + other.cpuMilli,
  memoryMiB: one.memoryMiB + other.memoryMiB,
  gpus: addGpus(one.gpus, other.gpus),
});

export const negative = ({ cpuMilli, memoryMiB, gpus }: Capacity): Capacity => ({
  cpuMilli: -cpuMilli,
  memoryMiB: -memoryMiB,
  gpus: Object.fromEntries(Object.entries(gpus).map(([name, count]) => [name, -count])),
});

export const isNothing = ({ cpuMilli, memoryMiB, gpus }: Capacity): boolean =>
  [cpuMilli, memoryMiB, ...Object.values(gpus)].every((amount) => amount === 0);

/**
 * The name that a region with these names has for the GPUs of a type: types may name those of a
 * region with one name as they like, and a type that names no model has the first.
 */
export function gpuNameIn(names: readonly string[], asked: string): string {
  const [first = asked] = names;
  const isOwn = names.includes(asked) || (names.length > 1 && !isNoModel(asked));
  return isOwn ? asked : first;
}

function namedAs(region: GpuCounts, asked: GpuCounts): GpuCounts {
  const names = Object.keys(region);
  return Object.entries(asked).reduce<GpuCounts>(
    (sum, [name, count]) => addGpus(sum, Object.fromEntries([[gpuNameIn(names, name), count]])),
    {},
  );
}

export const addToRegion = (free: Supply, added: Capacity): Supply => ({
  ...free,
  ...addCapacity(free, { ...added, gpus: namedAs(free.gpus, added.gpus) }),
});

/** Negative for capacity that the engine has lost. */
export const takeFromRegion = (free: Supply, taken: Capacity): Supply => addToRegion(free, negative(taken));

export const freeCapacity = ({ total, used }: RegionCapacity): Supply => takeFromRegion(total, used);

/** Left by launches without GPUs, so that every free GPU can still be taken. */
export function gpuReserveOf({ gpus, reservePerGpu = {} }: Supply): Capacity {
  const reserves = Object.entries(reservePerGpu).map(([name, each]) => {
    const count = Math.max(0, gpusNamed(gpus, name));
    return { cpuMilli: count * each.cpuMilli, memoryMiB: count * each.memoryMiB, gpus: {} };
  });
  return reserves.reduce(addCapacity, zeroCapacity);
}

/** The smallest cores and memory for a GPU among types, by the names that a region has. */
export function smallestReserve(gpus: GpuCounts, types: readonly Sized[]): NonNullable<Supply['reservePerGpu']> {
  const names = Object.keys(gpus);
  const byName = Map.groupBy(
    types.filter(({ gpuCount }) => gpuCount > 0),
    ({ gpuName }) => gpuNameIn(names, gpuName),
  );
  const reserves = names.map((name) => {
    const shares = (byName.get(name) ?? []).map((type) => ({ ...capacityOf(type), count: type.gpuCount }));
    const least = (of: 'cpuMilli' | 'memoryMiB'): number =>
      shares.length === 0 ? 0 : Math.floor(Math.min(...shares.map((share) => share[of] / share.count)));
    return [name, { cpuMilli: least('cpuMilli'), memoryMiB: least('memoryMiB') }] as const;
  });
  return Object.fromEntries(reserves);
}

/** Part of a need to hold before it fits: without GPUs nothing of their reserve. */
function reservable(need: Capacity, free: Supply): Capacity {
  if (free.reservePerGpu === undefined || countGpus(need.gpus) > 0) return need;
  const reserve = gpuReserveOf(free);
  return {
    cpuMilli: Math.min(need.cpuMilli, Math.max(0, free.cpuMilli - reserve.cpuMilli)),
    memoryMiB: Math.min(need.memoryMiB, Math.max(0, free.memoryMiB - reserve.memoryMiB)),
    gpus: {},
  };
}

/** Pairs of what is needed and what is free for it in a region. */
function pairsOf(need: Capacity, free: Supply): { cpuMilli: Pair; memoryMiB: Pair; gpus: Pair[] } {
  const gpus = Object.entries(namedAs(free.gpus, need.gpus));
  const isWithout = gpus.every(([, count]) => count <= 0);
  const reserve = isWithout ? gpuReserveOf(free) : zeroCapacity;
  return {
    cpuMilli: [need.cpuMilli, free.cpuMilli - reserve.cpuMilli],
    memoryMiB: [need.memoryMiB, free.memoryMiB - reserve.memoryMiB],
    gpus: gpus.map(([name, count]) => [count, gpusNamed(free.gpus, name)]),
  };
}
type Pair = [need: number, free: number];

const lack = ([need, free]: Pair): number => (need <= 0 ? 0 : Math.max(0, need - Math.max(0, free)));

export function fits(need: Capacity, free: Supply): boolean {
  const { cpuMilli, memoryMiB, gpus } = pairsOf(need, free);
  return [cpuMilli, memoryMiB, ...gpus].every((pair) => lack(pair) === 0);
}

/** Instances with this need that fit into what is free. */
export function timesFit(need: Capacity, free: Supply): number {
  const { cpuMilli, memoryMiB, gpus } = pairsOf(need, free);
  const needed = [cpuMilli, memoryMiB, ...gpus].filter(([count]) => count > 0);
  return needed.length === 0 ? 0 : Math.min(...needed.map(([count, has]) => Math.floor(Math.max(0, has) / count)));
}

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
    free: (): Supply => free,
    /** Counts capacity that is about to be free. */
    add(capacity: Capacity): void {
      free = addToRegion(free, capacity);
    },
    reservedCount: (): number => reservedCount,
    mayReserve,
    /** Whether the next entry is placed now. `accountUse`: held by the account's instances. */
    visit(entry: QueuedRequest, accountUse: Capacity): boolean {
      const { need, ownerId } = entry;
      const isPlaced = fits(need, free);
      const own = addCapacity(accountUse, placedCapacity.get(ownerId) ?? zeroCapacity);
      const isReserved = mayReserve(entry) && fits(need, takeFromRegion(region.total, own));
      if (isPlaced) placedCapacity.set(ownerId, addCapacity(need, placedCapacity.get(ownerId) ?? zeroCapacity));
      else accountsWaiting.add(ownerId);
      if (isPlaced || isReserved) {
        free = takeFromRegion(free, isPlaced ? need : reservable(need, free));
        reservedCount += 1;
      }
      return isPlaced;
    },
    isExhausted: (): boolean => free.cpuMilli <= 0 || free.memoryMiB <= 0,
  };
}

/** Example: `2 CPU cores and 1 GPU`, which `free` lacks for `need`. '' when it fits. */
export function capacityShortfall(need: Capacity, free: Supply): string {
  const { cpuMilli, memoryMiB, gpus } = pairsOf(need, free);
  const count = (number: number, one: string, more: string): string => `${number} ${number === 1 ? one : more}`;
  const shortOfGpus = gpus.reduce((sum, pair) => sum + lack(pair), 0);
  const parts = [
    lack(cpuMilli) > 0 ? count(lack(cpuMilli) / 1000, 'CPU core', 'CPU cores') : '',
    lack(memoryMiB) > 0 ? `${lack(memoryMiB)} MiB of memory` : '',
    shortOfGpus > 0 ? count(shortOfGpus, 'GPU', 'GPUs') : '',
  ];
  return parts.filter((words) => words !== '').join(' and ');
}

/** The closest fitting type: by GPU count (fewer before more), GPU name, CPU, memory, then size. */
export function nearestType<Type extends Sized>(asked: Sized, types: readonly Type[], free: Supply): Type | undefined {
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
