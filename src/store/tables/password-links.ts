/** Links that set a password, made and used under the account's lock. */
import { sql, type Selectable } from 'kysely';
import type { PasswordLinkTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type PasswordLinkRow = Selectable<PasswordLinkTable>;

/** Replaces the account's earlier links. */
export async function replacePasswordLinks(tx: Db, row: PasswordLinkRow): Promise<void> {
  await deletePasswordLinksOf(tx, row.accountId);
  await tx.insertInto('passwordLink').values(row).execute();
}

export const activePasswordLink = (
  db: Db,
  hash: string,
  nowMs: number,
): Promise<(PasswordLinkRow & { username: string; email: string }) | undefined> =>
  db
    .selectFrom('passwordLink')
    .innerJoin('account', 'account.id', 'passwordLink.accountId')
    .selectAll('passwordLink')
    .select(['account.username', 'account.email'])
    .where('passwordLink.hash', '=', hash)
    .where('passwordLink.expiresAtMs', '>', nowMs)
    .where('account.disabled', '=', sql.lit(0))
    .executeTakeFirst();

export async function deletePasswordLinksOf(tx: Db, accountId: string): Promise<void> {
  await tx.deleteFrom('passwordLink').where('accountId', '=', accountId).execute();
}

export async function deleteExpiredPasswordLinks(tx: Db, nowMs: number): Promise<void> {
  await tx.deleteFrom('passwordLink').where('expiresAtMs', '<=', nowMs).execute();
}
