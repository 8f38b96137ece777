/** Labels in two forms: the JSON of a row, which lists show, and a row each, which filters find. */
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import { noteQuery } from '../../async/rows-read.ts';
import { labelsText, searchForm, type Labels } from '../../domain/kernel/resource-labels.ts';
import { positionIn } from '../db/dialect.ts';
import type { Db } from '../store.ts';

type Labelled = 'instance' | 'volume';

/** Filter of a list; absent members filter nothing. */
export interface ListFilter {
  name?: string | undefined;
  labels?: Labels | undefined;
}

/** Replaces the labels of a locked row. */
export async function writeLabels(
  tx: Db,
  table: Labelled,
  { id: subjectId, ownerId }: { id: string; ownerId: string },
  labels: Labels,
): Promise<void> {
  await tx
    .updateTable(table)
    .set({ labels: labelsText(labels) })
    .where('id', '=', subjectId)
    .execute();
  await tx.deleteFrom('label').where('subjectId', '=', subjectId).execute();
  const rows = Object.entries(labels).map(([key, value]) => ({ subjectId, ownerId, key, value }));
  if (rows.length > 0) await tx.insertInto('label').values(rows).execute();
}

/** JSON of the labels of a volume; null without. */
export async function storedLabels(db: Db, id: string): Promise<string | null> {
  return (await db.selectFrom('volume').select('labels').where('id', '=', id).executeTakeFirst())?.labels ?? null;
}

/** The public text of a row with its labels, as `withLabels` of the domain. */
export const labelledText = sql<string>`case when labels is null then "publicText" else substr("publicText", 1, length("publicText") - 1) || ',"labels":' || labels || '}' end`;

/** An ID of an instance or a volume, as somebody pastes it into a filter. */
const pastedId = /^\s*(?:notebook-)?(?<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*$/i;

/**
 * Condition on the listed rows of an owner. Finds names by text, so `%` and `_` are literal, and a
 * pasted ID. Of `… is true`, PostgreSQL hashes the ids once; it read them again for each row of a
 * join.
 */
export function matches(db: Db, ownerId: string, { name = '', labels = {} }: ListFilter): RawBuilder<SqlBool> {
  const find = positionIn(db);
  for (const _label of Object.keys(labels)) noteQuery(1);
  const conditions = Object.entries(labels).map(
    ([key, value]) =>
      sql`(id in (select "subjectId" from label where "ownerId" = ${ownerId} and key = ${key} and value = ${value})) is true`,
  );
  if (name !== '') {
    const named = sql<SqlBool>`${find}("searchName", ${searchForm(name)}) > 0`;
    const id = pastedId.exec(name)?.groups?.['id']?.toLowerCase();
    conditions.push(id === undefined ? named : sql`(${named} or id in (${id}, ${`notebook-${id}`}))`);
  }
  return conditions.length === 0 ? sql`1 = 1` : sql.join(conditions, sql` and `);
}
