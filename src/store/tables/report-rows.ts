/**
 * The rows of every report over an account's books: time by periods, and money by entries, in spans
 * that begin and end at full hours of UTC. An entry counts where it begins.
 */
import { sql, type RawBuilder } from 'kysely';
import { noteSmallRows } from '../../async/rows-read.ts';
import { meters, meterStates, type Meter, type MeterState } from '../../domain/money/meter.ts';
import type { TimeSpan } from '../../domain/money/usage-buckets.ts';
import { oneOf } from '../db/columns.ts';
import { isSqlite } from '../db/dialect.ts';
import type { Db } from '../store.ts';
import type { EntryRow } from './ledger.ts';
import type { PeriodRow } from './usage-periods.ts';

/** Columns of periods by which rows may be grouped, besides the meter. */
export type Fact = 'subjectId' | 'typeId' | 'labels' | 'priceMicros';

export interface Grouping {
  by: readonly Fact[];
  /** Limits the rows to these resources. */
  subjectIds?: readonly string[] | undefined;
  /** Limits periods, with their entries, to these ids. */
  ids?: { after: number; upTo: number } | undefined;
}

type Facts = Partial<Record<'subjectId' | 'typeId', string> & { labels: string | null; priceMicros: number }>;

/** Time of periods in one span, by state. */
export interface TimeRow extends Facts {
  /** Start of the span. */
  fromMs: number;
  meter: Meter;
  state: MeterState;
  periods: number;
  ms: number;
  /** GB × milliseconds for storage. */
  quantityMs: number;
  /** The same of the time that was booked, if it has a price. */
  pricedMs: number;
  lastId: number;
}

/** Sum of entries, by where the money came from and went to. */
export interface MoneyRow extends Facts {
  kind: string;
  fromLedger: string;
  toLedger: string;
  /** '' for payments without usage. */
  meter: string;
  micros: number;
  /** 1 for metered use, and for what takes it back. */
  isOfUse: 0 | 1;
  /** Last period that describes them; null: none is known. */
  lastId: number | null;
}

export const END_OF_TIME_MS = Number.MAX_SAFE_INTEGER;

const listed = (ids: readonly string[]): RawBuilder<unknown> => sql.join(ids.map((id) => sql`${id}`));

/** Keeps SQLite from the index of opening times, which begins with all earlier periods. */
const openedAtMs = sql<number>`+period."openedAtMs"`;

/** Not an integer: SQLite has no sums above 2^53 for a reader of numbers. */
const sumOf = (what: RawBuilder<unknown>): RawBuilder<number> => sql`cast(sum(${what}) as double precision)`;

/** Keeps SQLite at the index of resources and ids, if some ids are wanted. */
const ofAccount = (accountId: string, { ids }: Pick<Grouping, 'ids'>): RawBuilder<unknown> =>
  ids === undefined
    ? sql`period."accountId" = ${accountId}`
    : sql`+period."accountId" = ${accountId} and period.id > ${sql.lit(ids.after)} and period.id <= ${sql.lit(ids.upTo)}`;

/** Counts periods with later ids up to `limit`. `lastId` is that of the first of one resource. */
export async function nextPeriods(
  db: Db,
  subjectIds: readonly string[],
  after: number,
  limit: number,
): Promise<{ count: number; lastId: number }> {
  const next = db.selectFrom('usagePeriod').select('id').where('subjectId', 'in', subjectIds).where('id', '>', after);
  // Sorted, all periods of several resources would be read first.
  const some = subjectIds.length > 1 ? next.limit(limit) : next.orderBy('id').limit(limit);
  const found = await db
    .selectFrom(some.as('next'))
    .select(({ fn }) => [fn.countAll<number>().as('count'), fn.max<number | null>('id').as('lastId')])
    .executeTakeFirst();
  return { count: found?.count ?? 0, lastId: found?.lastId ?? 0 };
}

/** Closed periods of the slice, or the open ones, which count up to their last booking. */
export async function timeIn(
  db: Db,
  accountId: string,
  spans: readonly TimeSpan[],
  { by, subjectIds, ids }: Grouping,
  slice: { afterMs: number; upToMs: number } | { openUntilMs: number },
): Promise<TimeRow[]> {
  const isOpen = 'openUntilMs' in slice;
  const [least, greatest] = isSqlite(db) ? [sql`min`, sql`max`] : [sql`least`, sql`greatest`];
  const end = isOpen
    ? sql`(case when period."isCharging" = 1 then period."chargedUntilMs" else ${sql.lit(slice.openUntilMs)} end)`
    : sql`period."closedAtMs"`;
  const lastedUntil = (untilMs: RawBuilder<unknown>) =>
    sql`(${least}(${untilMs}, span."untilMs") - ${greatest}(period."openedAtMs", span."fromMs"))`;
  const lasted = lastedUntil(end);
  const booked = sql`(case when period."priceMicros" = 0 then ${end} else period."chargedUntilMs" end)`;
  // Keeps SQLite at the index of the resources, if there are some.
  const closedAtMs = sql`${sql.raw(subjectIds === undefined ? '' : '+')}period."closedAtMs"`;
  const groups = ['meter', 'state', ...by].map((name) => sql.ref(`period.${name}`));
  const values = spans.map(({ fromMs, untilMs }) => sql`(${sql.lit(fromMs)}, ${sql.lit(untilMs)})`);
  const { rows } = await sql<Omit<TimeRow, 'meter' | 'state'> & { meter: string; state: string }>`
    with span("fromMs", "untilMs") as (values ${sql.join(values)})
    select span."fromMs", ${sql.join(groups)}, count(*) as periods, sum(${lasted}) as ms,
      ${sumOf(sql`${lasted} * period.quantity`)} as "quantityMs",
      ${sumOf(sql`${greatest}(0, ${lastedUntil(booked)}) * period.quantity`)} as "pricedMs", max(period.id) as "lastId"
    from "usagePeriod" as period cross join span
    where ${ofAccount(accountId, { ids })}
      ${
        isOpen
          ? sql`and period."closedAtMs" is null`
          : sql`and period."closedAtMs" is not null
        and ${closedAtMs} > ${slice.afterMs} and ${closedAtMs} <= ${slice.upToMs}`
      }
      ${subjectIds === undefined ? sql`` : sql`and period."subjectId" in (${listed(subjectIds)})`}
      and ${openedAtMs} < span."untilMs" and ${end} > span."fromMs"
    group by span."fromMs", ${sql.join(groups)}`.execute(db);
  for (const { periods } of rows) noteSmallRows(periods);
  return rows.map((row) => ({ ...row, meter: oneOf(meters, row.meter), state: oneOf(meterStates, row.state) }));
}

/** Time after which as many closed periods end, and when the first of them began. */
export async function nextSlice(
  db: Db,
  accountId: string,
  afterMs: number,
  size: number,
): Promise<{ openedAtMs: number; upToMs: number }> {
  const closed = db.selectFrom('usagePeriod').where('accountId', '=', accountId).where('closedAtMs', '>', afterMs);
  const last = await closed.select('closedAtMs').orderBy('closedAtMs').offset(size).limit(1).executeTakeFirst();
  const upToMs = last?.closedAtMs ?? END_OF_TIME_MS;
  const first = await closed
    .select(({ fn }) => fn.min('openedAtMs').as('openedAtMs'))
    .where('closedAtMs', '<=', upToMs)
    .executeTakeFirst();
  return { openedAtMs: first?.openedAtMs ?? END_OF_TIME_MS, upToMs };
}

/** Periods that touch the span, counted up to `limit`. */
export async function countPeriods(db: Db, accountId: string, span: TimeSpan, limit: number): Promise<number> {
  const { rows } = await sql<{ total: number }>`select count(*) as total from (
    select 1 from "usagePeriod" as period where "accountId" = ${accountId} and ${openedAtMs} < ${span.untilMs}
      and "closedAtMs" > ${span.fromMs} limit ${sql.lit(limit)}) as touching`.execute(db);
  return rows[0]?.total ?? 0;
}

const metered = sql`entry."periodId" is not null and entry."fromLedger" <> 'revenue'`;

/** The period that describes an entry: its own, or that of its resource at its time. */
const describedBy = sql<number | null>`coalesce(entry."periodId",
  (select id from "usagePeriod" as earlier where earlier."subjectId" = entry."subjectId"
    and earlier."openedAtMs" <= entry."atMs" order by id desc limit 1),
  (select min(id) from "usagePeriod" as later where later."subjectId" = entry."subjectId"))`;

/** Metered use, or all other entries. */
export async function moneyIn(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { by, subjectIds, ids, isMetered }: Grouping & { isMetered: boolean },
): Promise<MoneyRow[]> {
  const ofEntry = (name: string): boolean => name === 'subjectId';
  const groups = [...(isMetered ? [] : ['kind', 'toLedger']), 'fromLedger', 'meter', ...by].map((name) =>
    sql.ref(['typeId', 'labels', 'priceMicros'].includes(name) ? `period.${name}` : `entry.${name}`),
  );
  const isOfUse = sql`case when entry."periodId" is null then 0 else 1 end`;
  const needsPeriod = by.some((name) => !ofEntry(name)) || (!isMetered && by.length > 0);
  const join = sql`left join "usagePeriod" as period on period.id = ${isMetered ? sql`entry."periodId"` : describedBy}`;
  const ofResources =
    subjectIds !== undefined && isMetered
      ? sql`entry."periodId" in (select id from "usagePeriod" as period where ${ofAccount(accountId, { ids })}
          and period."subjectId" in (${listed(subjectIds)}) and period.state = 'charged'
          and (period."closedAtMs" > ${fromMs} or period."closedAtMs" is null) and ${openedAtMs} < ${untilMs})
        and entry."hourMs" >= ${fromMs} and entry."hourMs" < ${untilMs} and entry."fromLedger" <> 'revenue'`
      : sql`entry."accountId" = ${accountId} and entry."atMs" >= ${sql.lit(fromMs)} and entry."atMs" < ${sql.lit(untilMs)}
        and ${isMetered ? metered : sql`entry.kind <> 'charge'`}
        ${subjectIds === undefined ? sql`` : sql`and entry."subjectId" in (${listed(subjectIds)})`}`;
  const { rows } = await sql<MoneyRow & { entries: number }>`select count(*) as entries,
      ${isMetered ? sql`'charge' as kind, 'revenue' as "toLedger", 1` : isOfUse} as "isOfUse", ${sql.join(groups)}, ${sumOf(sql`entry."amountMicros"`)} as micros,
      ${needsPeriod && !isMetered ? sql`max(period.id)` : sql`null`} as "lastId"
    from entry ${needsPeriod ? join : sql``} where ${ofResources}
    group by ${sql.join(isMetered ? groups : [...groups, isOfUse])}`.execute(db);
  for (const { entries } of rows) noteSmallRows(entries);
  return rows;
}

/** Entries that are not metered use, oldest first. */
export async function otherEntries(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  limit: number,
): Promise<EntryRow[]> {
  return db
    .selectFrom('entry')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('kind', '<>', sql.lit('charge'))
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', untilMs)
    .orderBy('atMs')
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Whether charges of the account before `untilMs` are still to be booked. */
export async function isUnbooked(db: Db, accountId: string, untilMs: number): Promise<boolean> {
  const row = await db
    .selectFrom('usagePeriod')
    .select('id')
    .where('accountId', '=', accountId)
    .where('closedAtMs', 'is', null)
    .where('isCharging', '=', sql.lit(1))
    .where('chargedUntilMs', '<', untilMs)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Resources with usage or payments in the span, by id, after `after`. */
export async function resourceIds(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const isOfAccount = sql`"accountId" = ${accountId}`;
  const next = (last: RawBuilder<unknown>) =>
    sql`(select min("subjectId") from "usagePeriod" where ${isOfAccount} and "subjectId" > ${last} and "closedAtMs" is not null)`;
  const grouped = sql`group by "subjectId" order by "subjectId" limit ${sql.lit(limit)}`;
  // Seeks from one resource to the next: a resource may have a million periods. The plus keeps
  // SQLite from the index of closing times, which has the periods of all resources.
  const { rows } = await sql<{ subjectId: string }>`
    with recursive resource(id) as (
      select ${next(sql`${after}`)} union all select ${next(sql`resource.id`)} from resource where resource.id is not null)
    select "subjectId" from (select id as "subjectId" from resource where id is not null and exists
      (select 1 from "usagePeriod" where ${isOfAccount} and "subjectId" = resource.id and "closedAtMs" is not null
        and +"closedAtMs" > ${fromMs} and +"openedAtMs" < ${untilMs}) limit ${sql.lit(limit)}) as closed
    union select "subjectId" from (select "subjectId" from "usagePeriod"
      where ${isOfAccount} and "closedAtMs" is null and "subjectId" > ${after}
        and +"openedAtMs" < ${untilMs} ${grouped}) as current
    union select "subjectId" from (select "subjectId" from entry
      where ${isOfAccount} and kind <> 'charge' and "subjectId" > ${after}
        and "atMs" >= ${fromMs} and "atMs" < ${untilMs} ${grouped}) as paid
    order by 1 limit ${sql.lit(limit)}`.execute(db);
  return rows.map(({ subjectId }) => subjectId);
}

/** Entries of revenue and taxes, by time, each with its period. */
export async function chargesAfter(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { after, limit }: { after: Pick<EntryRow, 'atMs' | 'id'> | undefined; limit: number },
): Promise<(EntryRow & { describedBy: number | null })[]> {
  const { atMs, id } = after ?? { atMs: fromMs, id: 0 };
  return db
    .selectFrom('entry')
    .selectAll()
    .select(describedBy.as('describedBy'))
    .where('accountId', '=', accountId)
    .where((eb) => eb(eb.refTuple('atMs', 'id'), '>', eb.tuple(atMs, id)))
    .where('atMs', '<', untilMs)
    .where((eb) => eb.or([eb('toLedger', 'in', ['revenue', 'tax']), eb('fromLedger', 'in', ['revenue', 'tax'])]))
    .orderBy('atMs')
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Period of a resource at a time, or else the first. */
export async function periodAt(db: Db, subjectId: string, atMs: number): Promise<PeriodRow | undefined> {
  const ofSubject = db.selectFrom('usagePeriod').selectAll().where('subjectId', '=', subjectId).limit(1);
  const current = await ofSubject.where('openedAtMs', '<=', atMs).orderBy('id', 'desc').executeTakeFirst();
  return current ?? (await ofSubject.orderBy('id').executeTakeFirst());
}

/** Later periods that begin before a time, by id. */
export const periodsAfter = (
  db: Db,
  subjectId: string,
  { after, untilMs, limit }: { after: number; untilMs: number; limit: number },
): Promise<PeriodRow[]> =>
  db
    .selectFrom('usagePeriod')
    .selectAll()
    .where('subjectId', '=', subjectId)
    .where('id', '>', after)
    .where('openedAtMs', '<', untilMs)
    .orderBy('id')
    .limit(limit)
    .execute();

/** Accounts with entries after `after`, by id, deleted ones too, with their names. */
export async function accountsInBooks(
  db: Db,
  after: string,
  limit: number,
): Promise<{ id: string; username: string }[]> {
  const next = (last: RawBuilder<unknown>) => sql`(select min("accountId") from entry where "accountId" > ${last})`;
  const { rows } = await sql<{ id: string; username: string }>`
    with recursive book(place, id) as (
      select 1, ${next(sql`${after}`)}
      union all
      select place + 1, ${next(sql`book.id`)} from book where book.id is not null and place < ${sql.lit(limit)})
    select book.id, coalesce(account.username, former.username, '') as username from book
      left join account on account.id = book.id left join "formerAccount" as former on former.id = book.id
    where book.id is not null order by place`.execute(db);
  return rows;
}

/** Instance types that are spot, deleted ones are not known. */
export async function spotTypes(db: Db): Promise<Set<string>> {
  const rows = await db.selectFrom('instanceType').select('id').where('isSpot', '=', sql.lit(1)).execute();
  return new Set(rows.map(({ id }) => id));
}

interface Sum {
  subjectId: string;
  micros: number;
}

async function summed(query: { execute(): Promise<(Sum & { rows: number })[]> }): Promise<Sum[]> {
  const sums = await query.execute();
  for (const { rows } of sums) noteSmallRows(rows);
  return sums;
}

const rowCount = sql<number>`count(*)`.as('rows');

/** Charges of each resource since it is there, in micro-dollars; absent: none. */
export const chargesSoFar = (db: Db, { subjectIds = [], ids }: Omit<Grouping, 'by'>): Promise<Sum[]> =>
  summed(
    db
      .selectFrom('usagePeriod')
      .select(['subjectId', ({ fn }) => fn.sum<number>('chargedMicros').as('micros'), rowCount])
      .where('subjectId', 'in', subjectIds)
      .$if(ids !== undefined, (query) =>
        query.where('id', '>', ids?.after ?? 0).where('id', '<=', ids?.upTo ?? END_OF_TIME_MS),
      )
      .groupBy('subjectId'),
  );

/** Purchases of each resource, less refunds. */
export const purchasesSoFar = (db: Db, subjectIds: readonly string[]): Promise<Sum[]> =>
  summed(
    db
      .selectFrom('entry')
      .select([
        'subjectId',
        sql<number>`sum(case when "toLedger" = 'revenue' then "amountMicros"
          when "fromLedger" = 'revenue' then -"amountMicros" else 0 end)`.as('micros'),
        rowCount,
      ])
      .where('subjectId', 'in', subjectIds)
      .where('kind', '<>', 'charge')
      .groupBy('subjectId'),
  );
