/** Launch templates of accounts. The account is locked before they change. */
import { sql, type Selectable } from 'kysely';
import type { TemplateTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type TemplateRow = Selectable<TemplateTable>;

export const templatesOf = (db: Db, accountId: string): Promise<TemplateRow[]> =>
  db.selectFrom('template').selectAll().where('accountId', '=', accountId).orderBy('name').execute();

/** Templates of the account besides the named one, and the characters that they hold. */
export async function otherTemplates(
  db: Db,
  accountId: string,
  name: string,
): Promise<{ count: number; characters: number }> {
  return db
    .selectFrom('template')
    .select(({ fn }) => [
      fn.countAll<number>().as('count'),
      sql<number>`coalesce(sum(length(sealed)), 0)`.as('characters'),
    ])
    .where('accountId', '=', accountId)
    .where('name', '<>', name)
    .executeTakeFirstOrThrow();
}

export async function saveTemplate(tx: Db, row: TemplateRow): Promise<void> {
  const { sealed, updatedAtMs } = row;
  await tx
    .insertInto('template')
    .values(row)
    .onConflict((conflict) => conflict.columns(['accountId', 'name']).doUpdateSet({ sealed, updatedAtMs }))
    .execute();
}

/** False: the account has none of this name. */
export async function deleteTemplate(tx: Db, accountId: string, name: string): Promise<boolean> {
  const own = tx.deleteFrom('template').where('accountId', '=', accountId);
  return (await own.where('name', '=', name).executeTakeFirst()).numDeletedRows > 0n;
}
