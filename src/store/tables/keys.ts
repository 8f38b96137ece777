import type { Selectable } from 'kysely';
import type { ApiKeyTable, SshKeyTable } from '../db/schema.ts';
import type { CredentialHolder } from './sessions.ts';
import type { Db } from '../store.ts';

export type ApiKeyRow = Selectable<ApiKeyTable>;
export type SshKeyRow = Selectable<SshKeyTable>;

const count = async (tx: Db, table: 'apiKey' | 'sshKey', accountId: string): Promise<number> => {
  const row = await tx
    .selectFrom(table)
    .select((select) => select.fn.countAll<number | string | bigint>().as('count'))
    .where('accountId', '=', accountId)
    .executeTakeFirstOrThrow();
  return Number(row.count);
};

export const countApiKeys = (tx: Db, accountId: string): Promise<number> => count(tx, 'apiKey', accountId);
export const countSshKeys = (tx: Db, accountId: string): Promise<number> => count(tx, 'sshKey', accountId);

export async function insertApiKey(tx: Db, row: ApiKeyRow): Promise<void> {
  await tx.insertInto('apiKey').values(row).execute();
}

export async function apiKeysOf(db: Db, accountId: string): Promise<ApiKeyRow[]> {
  return db
    .selectFrom('apiKey')
    .selectAll()
    .where('accountId', '=', accountId)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();
}

export async function holderOfApiKey(
  db: Db,
  hash: string,
): Promise<(CredentialHolder & { apiKeyId: string }) | undefined> {
  return db
    .selectFrom('apiKey')
    .innerJoin('account', 'account.id', 'apiKey.accountId')
    .select(['apiKey.id as apiKeyId', 'account.id as accountId', 'account.username', 'account.email', 'account.roles'])
    .where('apiKey.hash', '=', hash)
    .where('account.disabled', '=', 0)
    .executeTakeFirst();
}

export async function hasApiKey(db: Db, accountId: string, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('apiKey')
    .select('id')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .executeTakeFirst();
  return row !== undefined;
}

export async function deleteApiKeyRow(tx: Db, accountId: string, id: string): Promise<ApiKeyRow | undefined> {
  return tx
    .deleteFrom('apiKey')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .returningAll()
    .executeTakeFirst();
}

/** Inserts the key, or returns the account's key with the same fingerprint. */
export async function insertSshKey(tx: Db, row: SshKeyRow): Promise<SshKeyRow | undefined> {
  const twin = await tx
    .selectFrom('sshKey')
    .selectAll()
    .where('accountId', '=', row.accountId)
    .where('fingerprint', '=', row.fingerprint)
    .executeTakeFirst();
  if (!twin) await tx.insertInto('sshKey').values(row).execute();
  return twin;
}

export async function sshKeysOf(db: Db, accountId: string): Promise<SshKeyRow[]> {
  return db
    .selectFrom('sshKey')
    .selectAll()
    .where('accountId', '=', accountId)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();
}

export async function deleteSshKeyRow(tx: Db, accountId: string, id: string): Promise<SshKeyRow | undefined> {
  return tx
    .deleteFrom('sshKey')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .returningAll()
    .executeTakeFirst();
}

/** Public keys that open an instance; null without an active instance. */
export async function keysOfInstance(db: Db, instanceId: string): Promise<string[] | null> {
  const rows = await db
    .selectFrom('instance')
    .innerJoin('account', 'account.id', 'instance.ownerId')
    .leftJoin('sshKey', (join) => join.onRef('sshKey.accountId', '=', 'account.id').on('account.disabled', '=', 0))
    .select('sshKey.publicKey')
    .where('instance.id', '=', instanceId)
    .where('instance.desired', '!=', 'released')
    .execute();
  return rows.length === 0 ? null : rows.flatMap(({ publicKey }) => publicKey ?? []);
}

/** Content of `authorized_keys`, a line per key; equal keys give equal text. */
export async function authorizedKeysOf(db: Db, accountId: string): Promise<string> {
  return (await sshKeysOf(db, accountId)).map(({ publicKey }) => `${publicKey}\n`).join('');
}
