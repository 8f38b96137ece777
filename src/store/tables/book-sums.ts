/**
 * Sums over an account's entries and periods in a span that begins and ends at full hours of UTC.
 * Closed periods are read from indexes alone; an entry counts where it begins.
 */
import { sql, type RawBuilder } from 'kysely';
import { meters, meterStates, type Meter, type MeterState } from '../../domain/meter.ts';
import type { TimeSpan } from '../../domain/usage-buckets.ts';
import { isSqlite } from '../db/dialect.ts';
import type { Db } from '../store.ts';
import type { EntryRow } from './ledger.ts';
import type { PeriodRow } from './usage-periods.ts';

export const paidFrom = ['cash', 'voucher', 'credit', 'uncollected'] as const;
export type PaidFrom = (typeof paidFrom)[number];

export interface Charges {
  bySource: Record<PaidFrom, number>;
  byMeter: Record<Meter, number>;
}

/** Metered use, by the money that paid and by the meter: one range of one index. */
export async function meteredSums(db: Db, accountId: string, { fromMs, untilMs }: TimeSpan): Promise<Charges> {
  const sumOf = (column: 'fromLedger' | 'meter', value: string) => sql`coalesce(sum("amountMicros")
    filter (where ${sql.ref(column)} = ${sql.lit(value)}), 0) as ${sql.ref(value)}`;
  const sums = [
    ...paidFrom.map((source) => sumOf('fromLedger', source)),
    ...meters.map((meter) => sumOf('meter', meter)),
  ];
  const { rows } = await sql<Record<string, number>>`select ${sql.join(sums)} from entry
    where "accountId" = ${accountId} and "atMs" >= ${sql.lit(fromMs)} and "atMs" < ${sql.lit(untilMs)}
      and "periodId" is not null`.execute(db);
  const of = (name: string): number => rows[0]?.[name] ?? 0;
  return {
    bySource: { cash: of('cash'), voucher: of('voucher'), credit: of('credit'), uncollected: of('uncollected') },
    byMeter: { compute: of('compute'), disks: of('disks'), volume: of('volume'), snapshot: of('snapshot') },
  };
}

export interface OtherSum {
  kind: string;
  fromLedger: string;
  toLedger: string;
  meter: string;
  amountMicros: number;
}

/** Not an integer: SQLite has no sums above 2^53 for a reader of numbers. */
const sumOfMicros = sql<number>`cast(sum("amountMicros") as double precision)`;

/** Entries that are not metered use. */
export async function otherSums(db: Db, accountId: string, { fromMs, untilMs }: TimeSpan): Promise<OtherSum[]> {
  return db
    .selectFrom('entry')
    .select(['kind', 'fromLedger', 'toLedger', 'meter', sumOfMicros.as('amountMicros')])
    .where('accountId', '=', accountId)
    .where('periodId', 'is', null)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', untilMs)
    .groupBy(['kind', 'fromLedger', 'toLedger', 'meter'])
    .execute();
}

/** Oldest first. */
export async function otherEntries(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { subjectIds, limit }: { subjectIds?: readonly string[]; limit: number },
): Promise<EntryRow[]> {
  let found = db
    .selectFrom('entry')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('periodId', 'is', null)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', untilMs);
  if (subjectIds !== undefined) found = found.where('subjectId', 'in', subjectIds);
  return found.orderBy('atMs').orderBy('id').limit(limit).execute();
}

/** Keeps SQLite from the index of opening times, which begins with all earlier periods. */
const openedAtMs = sql<number>`+"openedAtMs"`;

export interface TimeSum {
  meter: Meter;
  state: MeterState;
  periods: number;
  ms: number;
}

/** Milliseconds of a closed period in the span. */
function timesIn(db: Db, { fromMs, untilMs }: TimeSpan) {
  const [least, greatest] = isSqlite(db) ? [sql`min`, sql`max`] : [sql`least`, sql`greatest`];
  const lasted = sql`(${least}("closedAtMs", ${sql.lit(untilMs)}) - ${greatest}("openedAtMs", ${sql.lit(fromMs)}))`;
  const sumOf = (ms: RawBuilder<unknown>) => sql<number>`coalesce(sum(${ms}), 0)`;
  return { ms: sumOf(lasted).as('ms'), quantityMs: sumOf(sql`${lasted} * quantity`).as('quantityMs') };
}

/** Time in the span of periods that closed after `afterMs`, up to `upToMs`, by meter and state. */
export async function closedTime(
  db: Db,
  accountId: string,
  span: TimeSpan,
  { afterMs, upToMs }: { afterMs: number; upToMs: number },
): Promise<TimeSum[]> {
  const sums: TimeSum[] = [];
  const { ms } = timesIn(db, span);
  for (const meter of meters)
    for (const state of meterStates) {
      const row = await db
        .selectFrom('usagePeriod')
        .select([sql<number>`count(*)`.as('periods'), ms])
        .where('accountId', '=', accountId)
        .where('meter', '=', meter)
        .where('state', '=', state)
        .where('closedAtMs', '>', afterMs)
        .where('closedAtMs', '<=', upToMs)
        .where(openedAtMs, '<', span.untilMs)
        .executeTakeFirst();
      if (row && row.periods > 0) sums.push({ meter, state, ...row });
    }
  return sums;
}

/** Closed periods that touch the span, by meter and state; at most `limit` of each. */
export async function closedPeriods(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  limit: number,
): Promise<PeriodRow[]> {
  const rows: PeriodRow[] = [];
  for (const meter of meters)
    for (const state of meterStates)
      rows.push(
        ...(await db
          .selectFrom('usagePeriod')
          .selectAll()
          .where('accountId', '=', accountId)
          .where('meter', '=', meter)
          .where('state', '=', state)
          .where('closedAtMs', '>', fromMs)
          .where(openedAtMs, '<', untilMs)
          .limit(limit)
          .execute()),
      );
  return rows;
}

export async function openPeriodsBefore(
  db: Db,
  accountId: string,
  untilMs: number,
  subjectIds?: readonly string[],
): Promise<PeriodRow[]> {
  let found = db
    .selectFrom('usagePeriod')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('closedAtMs', 'is', null)
    .where(openedAtMs, '<', untilMs);
  if (subjectIds !== undefined) found = found.where('subjectId', 'in', subjectIds);
  return found.orderBy('id').execute();
}

/** Resources with usage or payments in the span, by id, after `after`. */
export async function resourceIds(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const of = sql`"accountId" = ${accountId}`;
  const next = (last: RawBuilder<unknown>) =>
    sql`(select min("subjectId") from "usagePeriod" where ${of} and "subjectId" > ${last} and "closedAtMs" is not null)`;
  const grouped = sql`group by "subjectId" order by "subjectId" limit ${sql.lit(limit)}`;
  // Seeks from one resource to the next: a resource may have a million periods.
  const { rows } = await sql<{ subjectId: string }>`
    with recursive resource(id) as (
      select ${next(sql`${after}`)} union all select ${next(sql`resource.id`)} from resource where resource.id is not null)
    select "subjectId" from (select id as "subjectId" from resource where id is not null and exists
      (select 1 from "usagePeriod" where ${of} and "subjectId" = resource.id and "closedAtMs" > ${fromMs}
        and +"openedAtMs" < ${untilMs}) limit ${sql.lit(limit)}) as closed
    union select "subjectId" from (select "subjectId" from "usagePeriod"
      where ${of} and "subjectId" > ${after} and "closedAtMs" is null
        and +"openedAtMs" < ${untilMs} ${grouped}) as current
    union select "subjectId" from (select "subjectId" from entry
      where ${of} and "periodId" is null and "subjectId" > ${after}
        and "atMs" >= ${fromMs} and "atMs" < ${untilMs} ${grouped}) as paid
    order by 1 limit ${sql.lit(limit)}`.execute(db);
  return rows.map(({ subjectId }) => subjectId);
}

export interface ResourceTime extends TimeSum {
  subjectId: string;
  /** GB × milliseconds for storage. */
  quantityMs: number;
  /** Sum over periods wholly in the span. */
  chargedMicros: number;
  lastId: number;
}

/** Closed periods of the resources. */
export async function resourceTime(
  db: Db,
  accountId: string,
  span: TimeSpan,
  subjectIds: readonly string[],
): Promise<ResourceTime[]> {
  if (subjectIds.length === 0) return [];
  const { fromMs, untilMs } = span;
  const { ms, quantityMs } = timesIn(db, span);
  return db
    .selectFrom('usagePeriod')
    .select((eb) => [
      'subjectId',
      sql<Meter>`meter`.as('meter'),
      sql<MeterState>`state`.as('state'),
      sql<number>`count(*)`.as('periods'),
      ms,
      quantityMs,
      sql<number>`sum(case when "openedAtMs" >= ${sql.lit(fromMs)} and "closedAtMs" <= ${sql.lit(untilMs)}
        then "chargedMicros" else 0 end)`.as('chargedMicros'),
      eb.fn.max('id').as('lastId'),
    ])
    .where('accountId', '=', accountId)
    .where('subjectId', 'in', subjectIds)
    .where('closedAtMs', 'is not', null)
    .where('closedAtMs', '>', fromMs)
    .where(openedAtMs, '<', untilMs)
    .groupBy(['subjectId', 'meter', 'state'])
    .execute();
}

/** Charged periods that begin before the span or end after it. */
export async function crossingPeriods(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  subjectIds: readonly string[],
): Promise<Pick<PeriodRow, 'id' | 'subjectId' | 'meter'>[]> {
  if (subjectIds.length === 0) return [];
  return db
    .selectFrom('usagePeriod')
    .select(['id', 'subjectId', 'meter'])
    .where('accountId', '=', accountId)
    .where('subjectId', 'in', subjectIds)
    .where('state', '=', 'charged')
    .where('closedAtMs', 'is not', null)
    .where('closedAtMs', '>', fromMs)
    .where(openedAtMs, '<', untilMs)
    .where((eb) => eb.or([eb('openedAtMs', '<', fromMs), eb('closedAtMs', '>', untilMs)]))
    .execute();
}

/** Charges of the periods in the span. */
export async function periodCharges(
  db: Db,
  { fromMs, untilMs }: TimeSpan,
  ids: readonly number[],
): Promise<Map<number, number>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('entry')
    .select((eb) => ['periodId', eb.fn.sum<number>('amountMicros').as('micros')])
    .where('periodId', 'in', ids)
    .where('hourMs', '>=', fromMs)
    .where('hourMs', '<', untilMs)
    .groupBy('periodId')
    .execute();
  return new Map(rows.map(({ periodId, micros }) => [periodId ?? 0, micros]));
}

/** Revenue of each resource since it is there, in micro-dollars; absent: none. */
export async function chargesSoFar(db: Db, subjectIds: readonly string[]): Promise<Map<string, number>> {
  if (subjectIds.length === 0) return new Map();
  const metered = db
    .selectFrom('usagePeriod')
    .select(['subjectId', ({ fn }) => fn.sum<number>('chargedMicros').as('micros')])
    .where('subjectId', 'in', subjectIds)
    .groupBy('subjectId');
  const paid = db
    .selectFrom('entry')
    .select([
      'subjectId',
      sql<number>`sum(case when "toLedger" = 'revenue' then "amountMicros"
        when "fromLedger" = 'revenue' then -"amountMicros" else 0 end)`.as('micros'),
    ])
    .where('subjectId', 'in', subjectIds)
    .where('kind', '<>', 'charge')
    .groupBy('subjectId');
  const sums = new Map<string, number>();
  for (const { subjectId, micros } of [...(await metered.execute()), ...(await paid.execute())])
    sums.set(subjectId, (sums.get(subjectId) ?? 0) + micros);
  return sums;
}
