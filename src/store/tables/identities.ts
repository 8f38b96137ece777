/** Identities of login providers. */
import type { Selectable } from 'kysely';
import type { IdentityTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type IdentityRow = Selectable<IdentityTable>;

export async function accountOfIdentity(
  db: Db,
  { issuer, subject }: Pick<IdentityRow, 'issuer' | 'subject'>,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('identity')
    .select('accountId')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst();
  return row?.accountId;
}

/** False if a concurrent login has inserted the identity. */
export async function insertIdentity(tx: Db, row: IdentityRow): Promise<boolean> {
  const result = await tx
    .insertInto('identity')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return result.numInsertedOrUpdatedRows === 1n;
}

/** The oldest first. */
export const identitiesOf = (
  db: Db,
  accountId: string,
): Promise<Pick<IdentityRow, 'issuer' | 'subject' | 'createdAtMs'>[]> =>
  db
    .selectFrom('identity')
    .select(['issuer', 'subject', 'createdAtMs'])
    .where('accountId', '=', accountId)
    .orderBy('createdAtMs')
    .orderBy('issuer')
    .orderBy('subject')
    .execute();

export async function deleteIdentity(
  tx: Db,
  { accountId, issuer, subject }: Omit<IdentityRow, 'createdAtMs'>,
): Promise<boolean> {
  const result = await tx
    .deleteFrom('identity')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .where('accountId', '=', accountId)
    .executeTakeFirst();
  return result.numDeletedRows === 1n;
}

export async function moveIdentities(
  tx: Db,
  fromIssuer: string,
  toIssuer: string,
): Promise<{ moved: number; skipped: number }> {
  const known = tx.selectFrom('identity as other').select('other.subject').where('other.issuer', '=', toIssuer);
  const result = await tx
    .updateTable('identity')
    .set({ issuer: toIssuer })
    .where('issuer', '=', fromIssuer)
    .where('subject', 'not in', known)
    .executeTakeFirst();
  const left = await tx
    .selectFrom('identity')
    .select((row) => row.fn.countAll<number>().as('count'))
    .where('issuer', '=', fromIssuer)
    .executeTakeFirstOrThrow();
  return { moved: Number(result.numUpdatedRows), skipped: left.count };
}
