import type { Insertable, Selectable } from 'kysely';
import type { AccountTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export type AccountRow = Selectable<AccountTable>;

export async function accountById(db: Db, id: string): Promise<AccountRow | undefined> {
  return db.selectFrom('account').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Looks up by name or by email: names have no @, emails are stored in lower case. */
export async function accountByLogin(db: Db, login: string): Promise<AccountRow | undefined> {
  const column = login.includes('@') ? 'email' : 'username';
  return db.selectFrom('account').selectAll().where(column, '=', login.toLowerCase()).executeTakeFirst();
}

/** Returns the column already in use; null after the insert. Accounts may share the email ''. */
export async function insertAccount(tx: Db, row: Insertable<AccountTable>): Promise<'username' | 'email' | null> {
  if (row.email !== '') {
    const holder = await tx.selectFrom('account').select('id').where('email', '=', row.email).executeTakeFirst();
    if (holder) return 'email';
  }
  const result = await tx
    .insertInto('account')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  if (result.numInsertedOrUpdatedRows === 1n) return null;
  const namesake = await tx.selectFrom('account').select('id').where('username', '=', row.username).executeTakeFirst();
  return namesake ? 'username' : 'email';
}

/** Locks the row until the transaction ends, so no two requests pass a limit together. */
export async function lockAccount(tx: Db, id: string): Promise<AccountRow | undefined> {
  return tx
    .updateTable('account')
    .set((row) => ({ disabled: row.ref('disabled') }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
}

export async function setPasswordHash(tx: Db, id: string, passwordHash: string): Promise<void> {
  await tx.updateTable('account').set({ passwordHash }).where('id', '=', id).execute();
}

export async function administrators(db: Db, role: string): Promise<string[]> {
  const rows = await db
    .selectFrom('account')
    .select(['id', 'roles'])
    .where('roles', 'like', `%"${role}"%`)
    .where('disabled', '=', 0)
    .orderBy('id')
    .execute();
  return rows.map(({ id }) => id);
}
