/**
 * Of two looks at a database, one after the other: that nobody passed the line for capacity, that lists know of every change, and that
 * whoever was stopped by itself had it coming.
 */
import { capacityOf, type Capacity } from '../../src/domain/catalog.ts';
import { fits, RESERVATION_MS } from '../../src/domain/placement.ts';
import type { Kept, RegionCounts } from './invariants.ts';

const resources = ['cpuMilli', 'memoryMiB', 'gpus'] as const;

const needOf = ({ instance }: Kept): Capacity => capacityOf(instance.spec.type);

/** What of a region is not its account's own. */
function beside(total: Capacity, all: readonly Kept[], ownerId: string): Capacity {
  const held = all.filter(({ row }) => row.holdsCapacity === 1 && row.ownerId === ownerId).map(needOf);
  const sum = (name: (typeof resources)[number]): number => held.reduce((more, need) => more + need[name], 0);
  return {
    cpuMilli: total.cpuMilli - sum('cpuMilli'),
    memoryMiB: total.memoryMiB - sum('memoryMiB'),
    gpus: total.gpus - sum('gpus'),
  };
}

/** Those of a region for whom room is kept at that time, as the database stands. */
function keptFor(all: readonly Kept[], total: Capacity, nowMs: number): Map<string, Kept> {
  const line = all
    .filter(({ row }) => row.waitsSinceMs !== null)
    .toSorted((a, b) => (a.row.waitsSinceMs ?? 0) - (b.row.waitsSinceMs ?? 0));
  const firsts = new Map(line.toReversed().map((one) => [one.row.ownerId, one]));
  const kept = [...firsts.values()].filter((one) => {
    const sinceMs = nowMs - one.instance.requestedAtMs;
    return sinceMs >= 0 && sinceMs < RESERVATION_MS && fits(needOf(one), beside(total, all, one.row.ownerId));
  });
  return new Map(kept.map((one) => [one.row.id, one]));
}

/** Who was placed left enough free for those that waited before it and for whom room is kept: of each resource that it took itself. */
export function wrongTurns(
  before: ReadonlyMap<string, Kept>,
  after: readonly Kept[],
  regions: readonly RegionCounts[],
): string[] {
  return regions.flatMap(({ id, used, total }) => {
    const ofRegion = (all: Iterable<Kept>): Kept[] => [...all].filter(({ row }) => row.regionId === id);
    const [was, is] = [ofRegion(before.values()), ofRegion(after)];
    const placed = is.filter(({ row }) => row.holdsCapacity === 1 && before.get(row.id)?.row.holdsCapacity !== 1);
    return placed.flatMap((one) => {
      // What an engine had all along was adopted, not placed.
      if (one.instance.operation.cause === 'operator') return [];
      const sinceMs = before.get(one.row.id)?.row.waitsSinceMs ?? Infinity;
      const nowMs = one.instance.requestedAtMs;
      // In a commit of several works it may have been so only before, or only after.
      const still = keptFor(is, total, nowMs);
      const first = [...keptFor(was, total, nowMs).values()].filter(
        ({ row }) => still.has(row.id) && (row.waitsSinceMs ?? Infinity) < sinceMs,
      );
      const short = resources.filter((name) => {
        const kept = first.reduce((sum, other) => sum + needOf(other)[name], 0);
        return needOf(one)[name] > 0 && used[name] + kept > total[name];
      });
      return short.map(
        (name) => `${one.row.id} has passed ${first.map(({ row }) => row.id).join(', ')} in line for ${name}`,
      );
    });
  });
}

/** In line is only who is to run and has no place. */
export const wrongLine = (all: readonly Kept[]): string[] =>
  all
    .filter(({ row }) => row.waitsSinceMs !== null && (row.desired !== 'running' || row.holdsCapacity === 1))
    .map(({ row }) => `${row.id} is in line, is wished ${row.desired}, and holds capacity: ${row.holdsCapacity}`);

interface Listed {
  id: string;
  ownerId: string;
  publicText: string;
  listed: number;
}

/** Whose lists show something else now. */
export function ownersOfChanges(before: readonly Listed[], after: readonly Listed[]): Set<string> {
  const shown = (rows: readonly Listed[]): Map<string, Listed> =>
    new Map(rows.flatMap((row) => (row.listed === 1 ? [[row.id, row]] : [])));
  const [was, is] = [shown(before), shown(after)];
  const changed = [...was.values(), ...is.values()].filter(
    ({ id }) => was.get(id)?.publicText !== is.get(id)?.publicText,
  );
  return new Set(changed.map(({ ownerId }) => ownerId));
}

/** What was set before the stop, or with it in one commit, says so. */
export function stoppedForNothing(before: Kept, { row, instance }: Kept): string[] {
  const { kind, cause } = instance.operation;
  if (kind !== 'stop' || row.generation === before.row.generation) return [];
  const nowMs = instance.requestedAtMs;
  const any = (isSo: (ends: Kept['instance']['stopPolicy']) => boolean): boolean =>
    isSo(before.instance.stopPolicy) || isSo(instance.stopPolicy);
  const { runningSinceMs } = before.instance.observed;
  const had = {
    ScheduledStop: any(({ stopAtMs }) => stopAtMs !== null && stopAtMs <= nowMs),
    MaxRunTime: any(({ maxRunMs }) => maxRunMs !== null && runningSinceMs + maxRunMs <= nowMs),
    IdleStop: any(({ idle, keepAliveUntilMs }) => idle !== null && keepAliveUntilMs <= nowMs),
    user: true,
    operator: true,
  };
  return had[cause] ? [] : [`${row.id} was stopped by ${cause}, and nothing that was set says so`];
}
