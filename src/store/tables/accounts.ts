import { sql, type Insertable, type Selectable } from 'kysely';
import type { AccountState } from '../../domain/access/account-state.ts';
import type { Role } from '../../domain/access/roles.ts';
import type { AccountSort } from '../../domain/kernel/list-sorts.ts';
import { inOrder, orderOf } from './list-order.ts';
import { followAct } from './due-acts.ts';
import { positionIn, locking } from '../db/dialect.ts';
import type { AccountTable } from '../db/account-schema.ts';
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
    .values({ usage: '{}', ...row })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  if (result.numInsertedOrUpdatedRows === 1n) return null;
  const namesake = await tx.selectFrom('account').select('id').where('username', '=', row.username).executeTakeFirst();
  return namesake ? 'username' : 'email';
}

/** Locks the row until the transaction ends, so no two requests pass a limit together. */
export async function lockAccount(tx: Db, id: string): Promise<AccountRow | undefined> {
  return locking(tx, tx.selectFrom('account').selectAll().where('id', '=', id)).executeTakeFirst();
}

export async function setPasswordHash(tx: Db, id: string, passwordHash: string): Promise<void> {
  await tx.updateTable('account').set({ passwordHash }).where('id', '=', id).execute();
}

export async function administrators(db: Db, role: string): Promise<string[]> {
  const rows = await db
    .selectFrom('account')
    .select(['id', 'roles'])
    .where('roles', 'like', `%"${role}"%`)
    .where('disabled', '=', sql.lit(0))
    .orderBy('id')
    .execute();
  return rows.map(({ id }) => id);
}

/** Locks the accounts that exist, in the order of their ids. */
export async function lockAccounts(tx: Db, ids: Iterable<string>): Promise<Map<string, AccountRow>> {
  const locked = new Map<string, AccountRow>();
  for (const id of [...new Set(ids)].toSorted()) {
    const row = await lockAccount(tx, id);
    if (row) locked.set(id, row);
  }
  return locked;
}

export type AccountChange = Partial<
  Pick<
    AccountRow,
    'roles' | 'disabled' | 'disabledAtMs' | 'disabledReason' | 'deleteAtMs' | 'overdraftMicros' | 'secondFactors'
  >
>;

export async function changeAccount(tx: Db, id: string, change: AccountChange): Promise<AccountRow> {
  const row = await tx.updateTable('account').set(change).where('id', '=', id).returningAll().executeTakeFirstOrThrow();
  if (change.disabled !== undefined) {
    const act = { subjectId: id, ownerId: id };
    await followAct(tx, { ...act, kind: 'disable', dueAtMs: row.disabled === 1 ? 0 : null });
    await followAct(tx, { ...act, kind: 'deleteAccount', dueAtMs: row.deleteAtMs });
  }
  return row;
}

export interface AccountFilter {
  /** Part of the name or the email, in lower case. */
  search?: string | undefined;
  role?: Role | undefined;
  state?: AccountState | undefined;
  sort?: AccountSort | undefined;
}

/** Newest first without a sort. */
export async function accountPage(
  db: Db,
  { search = '', role, state, sort }: AccountFilter,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ rows: AccountRow[]; totalEntries: number }> {
  const find = positionIn(db);
  let found = db.selectFrom('account');
  if (search !== '')
    found = found.where(sql<boolean>`(${find}(username, ${search}) > 0 or ${find}(email, ${search}) > 0)`);
  if (role) found = found.where('roles', 'like', `%"${role}"%`);
  if (state === 'active') found = found.where('disabled', '=', sql.lit(0));
  if (state === 'disabled') found = found.where('disabled', '=', sql.lit(1)).where('deleteAtMs', 'is', null);
  if (state === 'deleting') found = found.where('deleteAtMs', 'is not', null);
  const { total } = await found.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirstOrThrow();
  const page = inOrder(found.selectAll(), orderOf(sort), { limit, offset });
  return { rows: await page.execute(), totalEntries: total };
}
