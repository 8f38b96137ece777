/** Invariants of a whole database and engine at rest, and pictures to compare. */
import { sql } from 'kysely';
import { expect } from 'vitest';
import type { Instance } from '../../../src/domain/compute/instance.ts';
import { capacityOfSpec } from '../../../src/domain/regions/catalog.ts';
import { fits, freeCapacity } from '../../../src/domain/regions/placement.ts';
import { regionsWithUsage } from '../../../src/store/tables/catalog.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import type { Schema } from '../../../src/store/db/schema.ts';
import type { Store } from '../../../src/store/store.ts';
import {
  wrongActs,
  wrongAtRest,
  wrongCounts,
  wrongDisks,
  wrongEvents,
  wrongPools,
  wrongPorts,
  wrongSnapshotText,
  wrongText,
  wrongTotals,
  wrongUsage,
  wrongVolumeText,
} from '../../simulation/invariants.ts';
import { stateOfInstance } from '../../simulation/books.ts';
import {
  ENTRY_SUMS,
  GRANT_SUMS,
  wrongBalances,
  wrongPeriods,
  wrongRateOfDisk,
  wrongRateOfInstance,
  wrongRefunds,
  wrongReplay,
  type EntrySum,
  type GrantSum,
} from '../../simulation/wrong-books.ts';
import { eventually, type World } from '../../fixtures/control.ts';

/** Every table except those of access. */
const tables = [
  'account',
  'region',
  'image',
  'instanceType',
  'instance',
  'nodePort',
  'mount',
  'volume',
  'snapshot',
  'disk',
  'pool',
  'idempotency',
  'event',
  'setting',
  'usagePeriod',
  'entry',
  'creditGrant',
] as const;

/** Every row of every table, in a stable order. */
export async function pictureOf(store: Store): Promise<Record<string, string[]>> {
  const rowsOf = async (table: keyof Schema): Promise<[string, string[]]> => {
    const rows = await store.read.selectFrom(table).selectAll().execute();
    return [table, rows.map((row) => JSON.stringify(row)).toSorted()];
  };
  return Object.fromEntries(await Promise.all(tables.map(rowsOf)));
}

/** Instances that wait while capacity is lacking, as one does after its first failed pull. */
async function waitInVain({ read }: Store): Promise<Set<string>> {
  const rows = await read.selectFrom('instance').selectAll().where('waitsSinceMs', 'is not', null).execute();
  const regions = new Map((await regionsWithUsage(read)).map((counted) => [counted.region.id, counted]));
  const isFull = ({ spec }: Instance): boolean => {
    const counted = regions.get(spec.regionId);
    return counted !== undefined && !fits(capacityOfSpec(spec), freeCapacity(counted));
  };
  return new Set(rows.filter((row) => isFull(instanceFromRow(row))).map(({ id }) => id));
}

/** Waits until no reconcile has work left. */
export async function settled({ store }: World): Promise<void> {
  let busy: unknown[] = [];
  const isAtRest = async (): Promise<boolean> => {
    const instances = await store.read
      .selectFrom('instance')
      .select(['id', 'status', 'dueAtMs', 'observed'])
      .where('dueAtMs', 'is not', null)
      .execute();
    const volumes = await store.read
      .selectFrom('volume')
      .select(['id', 'status', 'dueAtMs'])
      .where('dueAtMs', 'is not', null)
      .execute();
    const snapshots = await store.read
      .selectFrom('snapshot')
      .select(['id', 'status', 'dueAtMs'])
      .where('dueAtMs', 'is not', null)
      .execute();
    const waiting = instances.length > 0 ? await waitInVain(store) : new Set();
    busy = [...instances.filter(({ id }) => !waiting.has(id)), ...volumes, ...snapshots];
    return busy.length === 0;
  };
  await eventually(isAtRest, () => JSON.stringify(busy));
}

/**
 * Like `expectConsistent`, for worlds that change by themselves: must hold at some moment of rest.
 */
export async function becomesConsistent(world: World): Promise<void> {
  let last: unknown;
  const isConsistent = async (): Promise<boolean> => {
    await settled(world);
    return expectConsistent(world).then(
      () => true,
      (error: unknown) => ((last = error), false),
    );
  };
  await eventually(isConsistent, () => `inconsistent: ${String(last)}`);
}

export async function expectConsistent({ store, engine }: World): Promise<void> {
  const rows = await store.read.selectFrom('instance').selectAll().execute();
  const all = rows.map((row) => ({ row, instance: instanceFromRow(row) }));
  const regions = await regionsWithUsage(store.read);
  const volumes = await store.read.selectFrom('volume').selectAll().execute();
  const snapshots = await store.read.selectFrom('snapshot').selectAll().execute();
  const disks = await store.read.selectFrom('disk').selectAll().execute();
  const pools = await store.read.selectFrom('pool').selectAll().execute();
  const ports = await store.read.selectFrom('nodePort').selectAll().execute();
  const accounts = await store.read.selectFrom('account').selectAll().execute();
  const events = await store.read.selectFrom('event').select(['accountId', 'seq']).orderBy('seq').execute();
  const owned = await engine.listOwned(AbortSignal.timeout(120_000));
  expect([
    ...wrongCounts(
      regions.map(({ region: { id }, used, total }) => ({ id, used, total })),
      all,
    ),
    ...all.flatMap((stored) =>
      wrongText(stored, regions.find(({ region }) => region.id === stored.row.regionId)?.region),
    ),
    ...volumes.flatMap(wrongVolumeText),
    ...snapshots.flatMap(wrongSnapshotText),
    ...wrongPools(pools, disks),
    ...wrongDisks(disks, volumes, snapshots),
    ...wrongPorts(ports, all),
    ...wrongTotals(accounts, rows, volumes),
    ...wrongUsage(accounts, all, volumes, snapshots),
    ...accounts.flatMap(({ id, eventSeq }) =>
      wrongEvents(
        eventSeq,
        events.flatMap(({ accountId, seq }) => (accountId === id ? [seq] : [])),
      ),
    ),
    ...wrongActs(await store.read.selectFrom('dueAct').selectAll().execute(), all),
    ...wrongAtRest(all, owned),
    ...(await wrongBooks(store)),
  ]).toEqual([]);
}

/** Violations in ledger and usage periods. */
export async function wrongBooks({ read: db }: Pick<Store, 'read'>): Promise<string[]> {
  const accounts = await db.selectFrom('account').selectAll().execute();
  const entries = await sql<EntrySum>`${sql.raw(ENTRY_SUMS)}`.execute(db);
  const grants = await sql<GrantSum>`${sql.raw(GRANT_SUMS)}`.execute(db);
  const periods = await db.selectFrom('usagePeriod').selectAll().orderBy('id').execute();
  const lines = await db.selectFrom('entry').select(['periodId', 'kind', 'amountMicros']).execute();
  const events = await db
    .selectFrom('event')
    .select(['accountId', 'subjectId', 'seq', 'kind', 'data'])
    .orderBy('seq')
    .execute();
  const instances = await db.selectFrom('instance').selectAll().execute();
  const volumes = await db.selectFrom('volume').selectAll().execute();
  const snapshots = await db.selectFrom('snapshot').selectAll().execute();
  const [booked, refunded] = [new Map<number, number>(), new Map<number, number>()];
  for (const { periodId, kind, amountMicros } of lines) {
    const sums = kind === 'charge' ? booked : refunded;
    if (periodId !== null) sums.set(periodId, (sums.get(periodId) ?? 0) + amountMicros);
  }
  const bySubject = Map.groupBy(periods, ({ subjectId }) => subjectId);
  const periodsOf = (id: string) => bySubject.get(id) ?? [];
  const eventsOf = Map.groupBy(events, ({ subjectId }) => subjectId);
  const numbers = <Row extends { micros: unknown }>({ micros, ...row }: Row) => ({ ...row, micros: Number(micros) });
  return [
    ...wrongBalances(accounts, entries.rows.map(numbers), grants.rows.map(numbers)),
    ...[...bySubject].flatMap(([id, own]) => [
      ...wrongPeriods(own, booked),
      ...wrongRefunds(eventsOf.get(id) ?? [], own, refunded),
      ...wrongReplay(eventsOf.get(id) ?? [], own),
    ]),
    ...instances.flatMap((row) =>
      wrongRateOfInstance(stateOfInstance({ row, instance: instanceFromRow(row) }), periodsOf(row.id)),
    ),
    ...volumes.flatMap((row) => wrongRateOfDisk('volume', row, periodsOf(row.id))),
    ...snapshots.flatMap((row) => wrongRateOfDisk('snapshot', row, periodsOf(row.id))),
  ];
}
