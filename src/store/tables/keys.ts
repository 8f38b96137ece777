/** API keys, ssh keys and registry credentials of accounts. Registry secrets arrive sealed. */
import { sql, type ExpressionBuilder, type Selectable } from 'kysely';
import type { ApiKeyTable, RegistryCredentialTable, SshKeyTable } from '../db/account-schema.ts';
import type { Schema } from '../db/schema.ts';
import type { CredentialHolder } from './sessions.ts';
import { accountById } from './accounts.ts';
import { sshPrincipals } from '../../domain/access/ssh-key.ts';
import type { Db } from '../store.ts';

interface KeyRows {
  apiKey: Selectable<ApiKeyTable>;
  sshKey: Selectable<SshKeyTable>;
  registryCredential: Selectable<RegistryCredentialTable>;
}

/** Oldest first. */
export async function keyRowsOf<Table extends keyof KeyRows>(
  db: Db,
  table: Table,
  accountId: string,
): Promise<KeyRows[Table][]> {
  const { rows } = await sql<KeyRows[Table]>`
    select * from ${sql.table(table)} where "accountId" = ${accountId} order by "createdAtMs", id`.execute(db);
  return rows;
}

export async function deleteKey<Table extends keyof KeyRows>(
  tx: Db,
  table: Table,
  accountId: string,
  id: string,
): Promise<KeyRows[Table] | undefined> {
  const { rows } = await sql<KeyRows[Table]>`
    delete from ${sql.table(table)} where id = ${id} and "accountId" = ${accountId} returning *`.execute(tx);
  return rows[0];
}

export async function insertApiKey(tx: Db, row: KeyRows['apiKey']): Promise<void> {
  await tx.insertInto('apiKey').values(row).execute();
}

interface ApiKeyHolder extends Pick<KeyRows['apiKey'], 'scopes' | 'addresses' | 'expiresAtMs' | 'lastUsedAtMs'> {
  apiKeyId: string;
}

const isActive =
  (nowMs: number) =>
  ({ or, eb }: ExpressionBuilder<Schema, 'apiKey'>) =>
    or([eb('apiKey.expiresAtMs', 'is', null), eb('apiKey.expiresAtMs', '>', nowMs)]);

export async function setLastUse(tx: Db, table: 'apiKey' | 'session', id: string, lastUsedAtMs: number): Promise<void> {
  await tx.updateTable(table).set({ lastUsedAtMs }).where('id', '=', id).execute();
}

export async function holderOfApiKey(
  db: Db,
  hash: string,
  nowMs: number,
): Promise<(CredentialHolder & ApiKeyHolder) | undefined> {
  return db
    .selectFrom('apiKey')
    .innerJoin('account', 'account.id', 'apiKey.accountId')
    .select(['account.id as accountId', 'account.username', 'account.email', 'account.roles'])
    .select(['apiKey.id as apiKeyId', 'apiKey.scopes', 'apiKey.addresses', 'apiKey.expiresAtMs', 'apiKey.lastUsedAtMs'])
    .where('apiKey.hash', '=', hash)
    .where(isActive(nowMs))
    .where('account.disabled', '=', sql.lit(0))
    .executeTakeFirst();
}

export async function hasApiKey(db: Db, accountId: string, id: string, nowMs: number): Promise<boolean> {
  const row = await db
    .selectFrom('apiKey')
    .select('id')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .where(isActive(nowMs))
    .executeTakeFirst();
  return row !== undefined;
}

/** Inserts the key, or returns the account's key with the same fingerprint. */
export async function insertSshKey(tx: Db, row: KeyRows['sshKey']): Promise<KeyRows['sshKey'] | undefined> {
  const twin = await tx
    .selectFrom('sshKey')
    .selectAll()
    .where('accountId', '=', row.accountId)
    .where('fingerprint', '=', row.fingerprint)
    .executeTakeFirst();
  if (!twin) await tx.insertInto('sshKey').values(row).execute();
  return twin;
}

export interface SshAccess {
  account: { accountId: string; username: string };
  keys: Pick<KeyRows['sshKey'], 'publicKey' | 'kind'>[];
}

/** Owner and keys of an instance; null without an active instance. */
export async function sshAccessOf(db: Db, instanceId: string): Promise<SshAccess | null> {
  const rows = await db
    .selectFrom('instance')
    .innerJoin('account', 'account.id', 'instance.ownerId')
    .leftJoin('sshKey', (join) => join.onRef('sshKey.accountId', '=', 'account.id').on('account.disabled', '=', 0))
    .select(['account.id as accountId', 'account.username', 'sshKey.publicKey', 'sshKey.kind'])
    .where('instance.id', '=', instanceId)
    .where('instance.desired', '!=', 'released')
    .execute();
  const [first] = rows;
  if (!first) return null;
  const keys = rows.flatMap(({ publicKey, kind }) => (publicKey === null || kind === null ? [] : { publicKey, kind }));
  const { accountId, username } = first;
  return { account: { accountId, username }, keys };
}

/** Content of `authorized_keys`, a line per key; equal keys give equal text. */
export async function authorizedKeysOf(db: Db, accountId: string): Promise<string> {
  const rows = await keyRowsOf(db, 'sshKey', accountId);
  const owner = rows.some(({ kind }) => kind === 'ca') ? await accountById(db, accountId) : undefined;
  const principals = sshPrincipals(owner?.username ?? 'root').join(',');
  const options = { key: '', ca: `cert-authority,principals="${principals}" ` };
  return rows.map(({ publicKey, kind }) => `${options[kind]}${publicKey}\n`).join('');
}

/** Inserts the credentials, or returns those of the account for the server. */
export async function insertRegistryCredential(
  tx: Db,
  row: KeyRows['registryCredential'],
): Promise<KeyRows['registryCredential'] | undefined> {
  const twin = await registryCredentialFor(tx, row.accountId, row.server);
  if (!twin) await tx.insertInto('registryCredential').values(row).execute();
  return twin;
}

export const registryCredentialFor = (
  db: Db,
  accountId: string,
  server: string,
): Promise<KeyRows['registryCredential'] | undefined> =>
  db
    .selectFrom('registryCredential')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('server', '=', server)
    .executeTakeFirst();
