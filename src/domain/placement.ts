/**
 * # Placement
 *
 * Who gets what is free in a region. CPU, memory and whole GPUs are counted as they are promised, never as they are used: what the
 * engine has (`total`, its probe tells) less what is promised (`used`) is free. An engine that has less than is promised takes
 * nothing from anyone: what is short is less than nothing then, and nothing more of it is promised. What one does not need may be
 * short.
 *
 * ## The line
 * A launch or start that finds no room may wait. Those that wait in a region stand in one line, in the order in which they joined it,
 * whatever the clock did meanwhile. One rule holds for them and for newcomers, who stand behind all of them:
 *
 *     One is placed if of each resource that it needs there is enough free for it and for those before it together who are placed
 *     now or for whom room is kept.
 *
 * Room is kept for the first of each account in the line, for `KEPT_MS` from when it joined, and only if others can give it what it
 * needs: what its account's own instances hold does not come free for it, so it must fit into the region's total without that. For
 * whom room is kept, nobody who came later makes it wait a moment longer: a later one passes it only with what is left beside what it
 * needs, or does not need at all. A CPU type passes one that waits for GPUs as long as CPU and memory are plenty for both.
 *
 * For whom no room is kept, it stands still for nobody: later ones may pass it. It keeps its place, and takes its room before them
 * when there is enough. So nobody in line is held up for longer than `KEPT_MS` by any who wait before it, however many they are, and
 * whether they want their room or want others to have none: all of them joined before it, and whoever joins again stands behind it.
 * The price is that after that time one that needs much may see many small ones pass.
 */
import { capacityOf, type Capacity, type InstanceType } from './catalog.ts';

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount'>;

/** What a region has and what of it is promised. */
export interface RegionCapacity {
  total: Capacity;
  used: Capacity;
}

const resources = ['cpuMilli', 'memoryMiB', 'gpus'] as const;

const less = (from: Capacity, what: Capacity): Capacity => ({
  cpuMilli: from.cpuMilli - what.cpuMilli,
  memoryMiB: from.memoryMiB - what.memoryMiB,
  gpus: from.gpus - what.gpus,
});

export const zeroCapacity: Capacity = { cpuMilli: 0, memoryMiB: 0, gpus: 0 };

export const addCapacity = (one: Capacity, other: Capacity): Capacity => ({
  cpuMilli: one.cpuMilli + other.cpuMilli,
  memoryMiB: one.memoryMiB + other.memoryMiB,
  gpus: one.gpus + other.gpus,
});

/** Less than nothing of what the engine has lost. */
export const freeCapacity = ({ total, used }: RegionCapacity): Capacity => less(total, used);

export const fits = (need: Capacity, open: Capacity): boolean =>
  resources.every((resource) => need[resource] <= 0 || need[resource] <= open[resource]);

/** For how long from joining the line room is kept for one that waits, whatever comes free meanwhile. */
export const RESERVATION_MS = 10 * 60_000;

/** One that waits. */
export interface QueuedRequest {
  need: Capacity;
  ownerId: string;
  /** By the clock, unlike its place: one from the future, of a clock that was put back, counts as over. */
  joinedAtMs: number;
}

/**
 * Goes along the line from its head: what is open to the next is what is free less what is taken by those before it or kept for them.
 * It is asked of one after the other, so that a long line need not be read to its end.
 */
export function walkQueue(room: RegionCapacity, nowMs: number) {
  let open = freeCapacity(room);
  let kept = 0;
  /** Accounts whose first was passed and not placed. */
  const waiting = new Set<string>();
  /** What is placed on the way is its account's from then on. */
  const placedOf = new Map<string, Capacity>();
  const mayBeKept = ({ need, ownerId, joinedAtMs }: QueuedRequest): boolean =>
    !fits(need, open) &&
    !waiting.has(ownerId) &&
    joinedAtMs <= nowMs &&
    nowMs - joinedAtMs < RESERVATION_MS &&
    fits(need, room.total);
  return {
    /** What is open to whoever stands behind all that were passed. */
    open: (): Capacity => open,
    /** For how many of them room is taken or kept. */
    kept: (): number => kept,
    /** Whether it hangs on what its account's instances hold if room is kept for the next one. */
    mayBeKept,
    /** Whether the next one may be placed now; its account's instances hold so much already. */
    pass(one: QueuedRequest, held: Capacity): boolean {
      const { need, ownerId } = one;
      const placed = fits(need, open);
      const own = addCapacity(held, placedOf.get(ownerId) ?? zeroCapacity);
      const keeps = mayBeKept(one) && fits(need, less(room.total, own));
      if (placed) placedOf.set(ownerId, addCapacity(need, placedOf.get(ownerId) ?? zeroCapacity));
      else waiting.add(ownerId);
      if (placed || keeps) {
        open = less(open, need);
        kept += 1;
      }
      return placed;
    },
    /** Nobody behind can be placed: every type needs some CPU and some memory. */
    isOver: (): boolean => open.cpuMilli <= 0 || open.memoryMiB <= 0,
  };
}

/** What is missing for it, in words: of `open`, what more would be needed. Empty when it fits. */
export function capacityShortfall(need: Capacity, open: Capacity): string {
  const lack = (resource: keyof Capacity): number =>
    need[resource] <= 0 ? 0 : need[resource] - Math.max(0, open[resource]);
  const count = (number: number, one: string, more: string): string => `${number} ${number === 1 ? one : more}`;
  const said = [
    lack('cpuMilli') > 0 ? count(lack('cpuMilli') / 1000, 'CPU core', 'CPU cores') : '',
    lack('memoryMiB') > 0 ? `${lack('memoryMiB')} MiB of memory` : '',
    lack('gpus') > 0 ? count(lack('gpus'), 'GPU', 'GPUs') : '',
  ];
  return said.filter((words) => words !== '').join(' and ');
}

/**
 * The type nearest to what was asked, of those that fit: as many GPUs if there is one, else fewer (the closest), and more only then;
 * then the same kind of GPU, then the closest CPU and memory, the smaller of two that are as close. Undefined: none fits.
 */
export function nearestType<Type extends Sized & { gpuName: string }>(
  asked: Sized & { gpuName: string },
  types: readonly Type[],
  open: Capacity,
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
    .filter((type) => fits(capacityOf(type), open))
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
