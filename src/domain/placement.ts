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
 *     One is placed if of each resource that it needs there is enough free for it and for everyone before it together.
 *
 * So what those before it need is kept free for them, and nobody waits a moment longer because of one who came later. A later one
 * passes an earlier one only with what is left beside what the earlier one needs, or does not need at all: a CPU type passes one that
 * waits for GPUs as long as CPU and memory are plenty for both.
 *
 * Whoever needs more than the region has in all keeps nothing free: it is not for others to give it its turn, only for a region
 * that grows, and everyone behind it would stand still for nothing. It keeps its place.
 */
import { capacityOf, type Capacity, type InstanceType } from './catalog.ts';

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount'>;

/** What a region has and what of it is promised. */
export interface Room {
  total: Capacity;
  used: Capacity;
}

const resources = ['cpuMilli', 'memoryMiB', 'gpus'] as const;

const less = (from: Capacity, what: Capacity): Capacity => ({
  cpuMilli: from.cpuMilli - what.cpuMilli,
  memoryMiB: from.memoryMiB - what.memoryMiB,
  gpus: from.gpus - what.gpus,
});

/** Less than nothing of what the engine has lost. */
export const freeOf = ({ total, used }: Room): Capacity => less(total, used);

export const fits = (need: Capacity, open: Capacity): boolean =>
  resources.every((resource) => need[resource] <= 0 || need[resource] <= open[resource]);

/** One that waits, or any other whose turn is asked. */
export interface InLine {
  need: Capacity;
}

/**
 * Goes along the line from its head: what is open to the next is what is free less what all before it need. It is asked of one after
 * the other, so that a long line need not be read to its end.
 */
export function makeTurns(room: Room) {
  let open = freeOf(room);
  return {
    /** What is open to whoever stands behind all that were passed. */
    open: (): Capacity => open,
    /** Whether this one may be placed now. Whatever it is, those behind it find its need taken or kept. */
    pass({ need }: InLine): boolean {
      const placed = fits(need, open);
      if (placed || fits(need, room.total)) open = less(open, need);
      return placed;
    },
    /** Nobody behind can be placed: every type needs some CPU and some memory. */
    isOver: (): boolean => open.cpuMilli <= 0 || open.memoryMiB <= 0,
  };
}

/** What is missing for it, in words: of `open`, what more would be needed. Empty when it fits. */
export function whatIsShort(need: Capacity, open: Capacity): string {
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
