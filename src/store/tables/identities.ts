/** Identities of login providers. */
import type { Selectable } from 'kysely';
import type { IdentityTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

type IdentityRow = Selectable<IdentityTable>;

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
