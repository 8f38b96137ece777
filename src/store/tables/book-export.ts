/** Charges in the order of their ids, for exports of any length. */
import type { TimeSpan } from '../../domain/usage-buckets.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { specWithNames } from './json-schemas.ts';
import type { EntryRow } from './ledger.ts';
import type { PeriodRow } from './usage-periods.ts';

/** Null without entries in the span. */
export async function idBounds(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
): Promise<{ first: number; last: number } | null> {
  const row = await db
    .selectFrom('entry')
    .select((eb) => [eb.fn.min('id').as('first'), eb.fn.max('id').as('last')])
    .where('accountId', '=', accountId)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', untilMs)
    .executeTakeFirst();
  const { first = null, last = null } = row ?? {};
  return first === null || last === null ? null : { first, last };
}

/** Entries that add to the revenue, or take from it. */
export async function chargesAfter(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { after, last, limit }: { after: number; last: number; limit: number },
): Promise<EntryRow[]> {
  return db
    .selectFrom('entry')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('id', '>', after)
    .where('id', '<=', last)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', untilMs)
    .where((eb) => eb.or([eb('toLedger', '=', 'revenue'), eb('fromLedger', '=', 'revenue')]))
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Describes the resource of a charge in an export. */
export type ChargedResource = Pick<PeriodRow, 'subjectName' | 'regionId' | 'typeId' | 'labels'>;

/** Instances as they are now, for what was paid ahead. */
export async function instanceResources(db: Db, ids: readonly string[]): Promise<Map<string, ChargedResource>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('instance')
    .select(['id', 'regionId', 'spec', 'labels'])
    .where('id', 'in', ids)
    .execute();
  return new Map(
    rows.map(({ id, regionId, spec, labels }) => {
      const { name, type } = parseJson(specWithNames, spec, { table: 'instance', id, column: 'spec' });
      return [id, { subjectName: name, regionId, typeId: type.id, labels }];
    }),
  );
}

export async function regionNames(db: Db): Promise<Map<string, string>> {
  const rows = await db.selectFrom('region').select(['id', 'name']).execute();
  return new Map(rows.map(({ id, name }) => [id, name]));
}

export async function accountsAfter(db: Db, after: string, limit: number): Promise<{ id: string; username: string }[]> {
  return db
    .selectFrom('account')
    .select(['id', 'username'])
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
}
