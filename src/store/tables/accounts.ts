/** Accounts: who they are, what they own in counts, and what money they have. */
import type { Insertable, Selectable } from 'kysely';
import type { AccountTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export type AccountRow = Selectable<AccountTable>;

export async function accountById(db: Db, id: string): Promise<AccountRow | undefined> {
  return db.selectFrom('account').selectAll().where('id', '=', id).executeTakeFirst();
}

/** By name or by email: a name has no @, an email is kept in lower case. */
export async function accountByLogin(db: Db, login: string): Promise<AccountRow | undefined> {
  const column = login.includes('@') ? 'email' : 'username';
  return db.selectFrom('account').selectAll().where(column, '=', login.toLowerCase()).executeTakeFirst();
}

/** What is taken already, or null when the row was written. An email of '' is no email, and many may have none. */
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

/**
 * The row as it is now, and nobody else changes it, or counts what it owns, until this transaction ends. On PostgreSQL a plain read
 * would let two requests pass one limit together, or a login slip past a change of password.
 */
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

/** Enabled accounts of the role. */
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
