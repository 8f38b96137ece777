/** Pages of an account's entries and usage periods, newest first, with the events behind them. */
import { sql, type SelectQueryBuilder } from 'kysely';
import type { Schema } from '../db/schema.ts';
import type { Db } from '../store.ts';
import type { EntryRow } from './ledger.ts';
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

interface PageSpan {
  limit: number;
  offset: number;
  /** The count stops here. */
  maxTotal: number;
}

async function counted<O>(
  db: Db,
  some: SelectQueryBuilder<Schema, 'entry' | 'usagePeriod', O>,
  maxTotal: number,
): Promise<number> {
  const { total } = await db
    .selectFrom(some.limit(maxTotal).as('some'))
    .select(sql<number>`count(*)`.as('total'))
    .executeTakeFirstOrThrow();
  return total;
}

/** Filters by the time of the entry. */
export async function entryPage(
  db: Db,
  accountId: string,
  { fromMs, untilMs, ...equal }: EntryFilter,
  { limit, offset, maxTotal }: PageSpan,
): Promise<{ rows: EntryRow[]; total: number }> {
  let found = db.selectFrom('entry').where('accountId', '=', accountId);
  if (fromMs !== undefined) found = found.where('atMs', '>=', fromMs);
  if (untilMs !== undefined) found = found.where('atMs', '<', untilMs);
  for (const column of ['kind', 'subjectId', 'meter'] as const) {
    const value = equal[column];
    if (value !== undefined) found = found.where(column, '=', value);
  }
  const newest = found.selectAll().orderBy('atMs', 'desc').orderBy('id', 'desc');
  const rows = await newest.limit(limit).offset(offset).execute();
  return { rows, total: await counted(db, found.select('id'), maxTotal) };
}

/** Filters by the time that a period touches. */
export async function periodPage(
  db: Db,
  accountId: string,
  { fromMs, untilMs, ...equal }: PeriodFilter,
  { limit, offset, maxTotal }: PageSpan,
): Promise<{ rows: PeriodRow[]; total: number }> {
  let found = db.selectFrom('usagePeriod').where('accountId', '=', accountId);
  if (untilMs !== undefined) found = found.where('openedAtMs', '<', untilMs);
  if (fromMs !== undefined)
    found = found.where((eb) => eb.or([eb('closedAtMs', '>', fromMs), eb('closedAtMs', 'is', null)]));
  for (const column of ['state', 'subjectId', 'meter'] as const) {
    const value = equal[column];
    if (value !== undefined) found = found.where(column, '=', value);
  }
  const newest = found.selectAll().orderBy('openedAtMs', 'desc').orderBy('id', 'desc');
  const rows = await newest.limit(limit).offset(offset).execute();
  return { rows, total: await counted(db, found.select('id'), maxTotal) };
}

/** Whether the account ever had usage or entries of the subject. */
export async function isInBooks(db: Db, accountId: string, subjectId: string): Promise<boolean> {
  const { rows } = await sql<{ isThere: number }>`select 1 as "isThere" where exists
    (select 1 from "usagePeriod" where "subjectId" = ${subjectId} and "accountId" = ${accountId}) or exists
    (select 1 from entry where "accountId" = ${accountId} and "periodId" is null and "subjectId" = ${subjectId})`.execute(
    db,
  );
  return rows.length > 0;
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
