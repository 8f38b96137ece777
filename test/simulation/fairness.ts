/**
 * Of two looks at a database, one after the other: that nobody passed the line for capacity, that lists know of every change, and that
 * whoever was stopped by itself had it coming.
 */
import { capacityOf, type Capacity } from '../../src/domain/catalog.ts';
import type { Kept, RegionCounts } from './invariants.ts';

const resources = ['cpuMilli', 'memoryMiB', 'gpus'] as const;

const needOf = ({ instance }: Kept): Capacity => capacityOf(instance.spec.type);
const fitsIn = (need: Capacity, total: Capacity): boolean => resources.every((name) => need[name] <= total[name]);

/** Who was placed left enough free for everyone that waited before: of each resource that it took itself. */
export function wrongTurns(
  before: ReadonlyMap<string, Kept>,
  after: readonly Kept[],
  regions: readonly RegionCounts[],
): string[] {
  return regions.flatMap(({ id, used, total }) => {
    const mine = after.filter(({ row }) => row.regionId === id);
    const waited = mine.filter(({ row }) => row.waitsSinceMs !== null && before.get(row.id)?.row.waitsSinceMs !== null);
    const placed = mine.filter(({ row }) => row.holdsCapacity === 1 && before.get(row.id)?.row.holdsCapacity !== 1);
    return placed.flatMap((one) => {
      const since = before.get(one.row.id)?.row.waitsSinceMs ?? Infinity;
      const isBefore = ({ row }: Kept): boolean => {
        const other = row.waitsSinceMs ?? Infinity;
        return before.has(row.id) && (other < since || (other === since && row.id < one.row.id));
      };
      // What an engine had all along was adopted, not placed.
      if (one.instance.operation.cause === 'operator') return [];
      const first = waited.filter((other) => isBefore(other) && fitsIn(needOf(other), total));
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
  const nowMs = instance.wishedAtMs;
  const any = (isSo: (ends: Kept['instance']['ends']) => boolean): boolean =>
    isSo(before.instance.ends) || isSo(instance.ends);
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
