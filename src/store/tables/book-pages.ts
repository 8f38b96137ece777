/** Pages of an account's entries and usage periods, newest first, with the events behind them. */
import { sql } from 'kysely';
import type { Db } from '../store.ts';
import type { EntryRow } from './ledger.ts';
import { equalTo, pageInSlices, type PageSpan } from './sliced-page.ts';
import type { PeriodRow } from './usage-periods.ts';

export interface BookFilter {
  fromMs?: number | undefined;
  untilMs?: number | undefined;
  subjectId?: string | undefined;
  meter?: string | undefined;
}

export interface EntryFilter extends BookFilter {
  kind?: string | undefined;
}

export interface PeriodFilter extends BookFilter {
  state?: string | undefined;
}

/** Filters by the time of the entry. */
export const entryPage = (
  db: Db,
  accountId: string,
  { fromMs, untilMs, kind, subjectId, meter }: EntryFilter,
  span: PageSpan,
): Promise<{ rows: EntryRow[]; total: number }> => {
  const bounds = {
    within: [sql`"accountId" = ${accountId}`],
    from: fromMs === undefined ? undefined : sql`"atMs" >= ${fromMs}`,
    until: untilMs === undefined ? undefined : sql`"atMs" < ${untilMs}`,
  };
  const filter = equalTo({ kind, subjectId, meter });
  return pageInSlices(db, { table: 'entry', by: ['atMs', 'id'], ...bounds, filter }, span);
};

/** Filters by the time that a period touches. */
export const periodPage = (
  db: Db,
  accountId: string,
  { fromMs, untilMs, state, subjectId, meter }: PeriodFilter,
  span: PageSpan,
): Promise<{ rows: PeriodRow[]; total: number }> => {
  const within = [sql`"accountId" = ${accountId}`];
  const until = untilMs === undefined ? undefined : sql`"openedAtMs" < ${untilMs}`;
  const filter = equalTo({ state, subjectId, meter });
  if (fromMs !== undefined) filter.push(sql`("closedAtMs" > ${fromMs} or "closedAtMs" is null)`);
  return pageInSlices(db, { table: 'usagePeriod', by: ['openedAtMs', 'id'], within, until, filter }, span);
};

/** Whether the account ever had usage or entries of the subject, which is of one account. */
export async function isInBooks(db: Db, accountId: string, subjectId: string): Promise<boolean> {
  const ownerIn = (table: string, more = sql``) =>
    sql`(select "accountId" from ${sql.table(table)} where "subjectId" = ${subjectId} ${more} limit 1)`;
  const { rows } = await sql<{ accountId: string | null }>`select
    coalesce(${ownerIn('usagePeriod')}, ${ownerIn('entry', sql`and kind <> 'charge'`)}) as "accountId"`.execute(db);
  return rows[0]?.accountId === accountId;
}

export async function periodsById(db: Db, ids: readonly number[]): Promise<PeriodRow[]> {
  return ids.length === 0 ? [] : db.selectFrom('usagePeriod').selectAll().where('id', 'in', ids).execute();
}

/** Kinds by number; deleted events are absent. */
export async function eventKinds(db: Db, accountId: string, seqs: readonly number[]): Promise<Map<number, string>> {
  if (seqs.length === 0) return new Map();
  const rows = await db
    .selectFrom('event')
    .select(['seq', 'kind'])
    .where('accountId', '=', accountId)
    .where('seq', 'in', seqs)
    .execute();
  return new Map(rows.map(({ seq, kind }) => [seq, kind]));
}
