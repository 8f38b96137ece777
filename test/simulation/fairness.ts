/**
 * Compares two states of a database: nobody overtakes the capacity queue, lists report every
 * change, and each automatic stop has a cause.
 */
import { capacityOfSpec, countGpus, type Capacity } from '../../src/domain/regions/catalog.ts';
import { isHourly } from '../../src/domain/money/meter.ts';
import { addCapacity, fits, freeCapacity, RESERVATION_MS, zeroCapacity } from '../../src/domain/regions/placement.ts';
import type { StoredInstance, RegionCounts } from './invariants.ts';

const resources = ['cpuMilli', 'memoryMiB', 'gpus'] as const;

const amountOf = ({ gpus, ...capacity }: Capacity, name: (typeof resources)[number]): number =>
  name === 'gpus' ? countGpus(gpus) : capacity[name];

const needOf = ({ instance }: StoredInstance): Capacity => capacityOfSpec(instance.spec);

/** Capacity of a region without the account's own usage. */
function capacityWithout(total: Capacity, all: readonly StoredInstance[], ownerId: string): Capacity {
  const usage = all.filter(({ row }) => row.holdsCapacity === 1 && row.ownerId === ownerId).map(needOf);
  return freeCapacity({ total, used: usage.reduce(addCapacity, zeroCapacity) });
}

/** Queued instances of a region with a reservation at `nowMs`. */
function reservedFor(all: readonly StoredInstance[], total: Capacity, nowMs: number): Map<string, StoredInstance> {
  const line = all
    .filter(({ row, instance }) => row.waitsSinceMs !== null && !instance.spec.isSpot)
    .toSorted((a, b) => (a.row.waitsSinceMs ?? 0) - (b.row.waitsSinceMs ?? 0));
  const firsts = new Map(line.toReversed().map((one) => [one.row.ownerId, one]));
  const heads = [...firsts.values()].filter((one) => {
    const sinceMs = nowMs - one.instance.requestedAtMs;
    return sinceMs >= 0 && sinceMs < RESERVATION_MS && fits(needOf(one), capacityWithout(total, all, one.row.ownerId));
  });
  return new Map(heads.map((one) => [one.row.id, one]));
}

/** A placement leaves enough of each resource for reservations of earlier entries. */
export function supersededEntries(
  before: ReadonlyMap<string, StoredInstance>,
  after: readonly StoredInstance[],
  regions: readonly RegionCounts[],
): string[] {
  return regions.flatMap(({ id, used, total }) => {
    const ofRegion = (all: Iterable<StoredInstance>): StoredInstance[] =>
      [...all].filter(({ row }) => row.regionId === id);
    const [was, is] = [ofRegion(before.values()), ofRegion(after)];
    const scheduled = is.filter(({ row }) => row.holdsCapacity === 1 && before.get(row.id)?.row.holdsCapacity !== 1);
    return scheduled.flatMap((one) => {
      // Adopted, not placed.
      if (one.instance.operation.cause === 'operator') return [];
      const sinceMs = one.instance.spec.isSpot ? Infinity : (before.get(one.row.id)?.row.waitsSinceMs ?? Infinity);
      const nowMs = one.instance.requestedAtMs;
      // Several operations may share a commit: both states must agree.
      const still = reservedFor(is, total, nowMs);
      const first = [...reservedFor(was, total, nowMs).values()].filter(
        ({ row }) => still.has(row.id) && (row.waitsSinceMs ?? Infinity) < sinceMs,
      );
      const short = resources.filter((name) => {
        const reserved = first.reduce((sum, other) => sum + amountOf(needOf(other), name), 0);
        return amountOf(needOf(one), name) > 0 && amountOf(used, name) + reserved > amountOf(total, name);
      });
      return short.map(
        (name) => `${one.row.id} has overtaken ${first.map(({ row }) => row.id).join(', ')} in the queue for ${name}`,
      );
    });
  });
}

/** Only instances that should run and hold no capacity are queued. */
export const wrongQueue = (all: readonly StoredInstance[]): string[] =>
  all
    .filter(({ row }) => row.waitsSinceMs !== null && (row.desired !== 'running' || row.holdsCapacity === 1))
    .map(
      ({ row }) => `${row.id} is queued, its desired state is ${row.desired}, and holds capacity: ${row.holdsCapacity}`,
    );

export interface OpenRegion {
  id: string;
  drain: string | null;
  inCatalog: number;
}

/** A retired region takes no launches, a drained one gives no capacity; adoption ignores both. */
export function wrongPlaces(
  before: ReadonlyMap<string, StoredInstance>,
  after: readonly StoredInstance[],
  regions: readonly (readonly OpenRegion[])[],
): string[] {
  const both = (id: string, isSo: (region: OpenRegion) => boolean): boolean =>
    regions.every((all) => all.some((one) => one.id === id && isSo(one)));
  return after.flatMap(({ row: { id, regionId, holdsCapacity }, instance }) => {
    const was = before.get(id)?.row;
    if (was?.holdsCapacity === holdsCapacity || instance.operation.cause === 'operator') return [];
    const isRetired = was === undefined && both(regionId, ({ inCatalog }) => inCatalog === 0);
    const isDrained = holdsCapacity === 1 && both(regionId, ({ drain }) => drain !== null);
    return [
      ...(isRetired ? [`${id} was launched in a retired region`] : []),
      ...(isDrained ? [`${id} got capacity of a drained region`] : []),
    ];
  });
}

interface Listed {
  id: string;
  ownerId: string;
  publicText: string;
  listed: number;
}

/** Accounts with a changed list. */
export function ownersOfChanges(before: readonly Listed[], after: readonly Listed[]): Set<string> {
  const shown = (rows: readonly Listed[]): Map<string, Listed> =>
    new Map(rows.flatMap((row) => (row.listed === 1 ? [[row.id, row]] : [])));
  const [was, is] = [shown(before), shown(after)];
  const changed = [...was.values(), ...is.values()].filter(
    ({ id }) => was.get(id)?.publicText !== is.get(id)?.publicText,
  );
  return new Set(changed.map(({ ownerId }) => ownerId));
}

/** The stop policy before or after the change must justify the stop. */
export function unjustifiedStop(before: StoredInstance, { row, instance }: StoredInstance): string[] {
  const { kind, cause } = instance.operation;
  if (kind !== 'stop' || row.generation === before.row.generation) return [];
  const nowMs = instance.requestedAtMs;
  const any = (isSo: (ends: StoredInstance['instance']['stopPolicy']) => boolean): boolean =>
    isSo(before.instance.stopPolicy) || isSo(instance.stopPolicy);
  const { runningSinceMs } = before.instance.observed;
  const { reclaimAtMs, spec } = before.instance;
  const isByHour = isHourly(spec.chargeMode);
  const had = {
    ScheduledStop: any(({ stopAtMs }) => stopAtMs !== null && stopAtMs <= nowMs),
    MaxRunTime: any(({ maxRunMs }) => maxRunMs !== null && runningSinceMs + maxRunMs <= nowMs),
    IdleStop: any(({ idle, keepAliveUntilMs }) => idle !== null && keepAliveUntilMs <= nowMs),
    PaidTimeEnded: !isByHour,
    // No root disk grows here.
    RootDiskOverSize: false,
    HostNearlyFull: false,
    // No account is disabled here.
    AccountDisabled: false,
    NoMoney: isByHour,
    BudgetReached: isByHour,
    OffPeakEnded: spec.chargeMode === 'tidePerHour',
    SpotReclaimed: spec.isSpot && reclaimAtMs !== null && reclaimAtMs <= nowMs,
    resume: false,
    wake: false,
    LongStop: false,
    user: true,
    operator: true,
  };
  return had[cause] ? [] : [`${row.id} was stopped by ${cause} without a stop policy that says so`];
}
