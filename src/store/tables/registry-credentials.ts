/** Registry credentials, one per server and account. The secret arrives sealed. */
import type { Selectable } from 'kysely';
import type { RegistryCredentialTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export type RegistryCredentialRow = Selectable<RegistryCredentialTable>;

export async function insertRegistryCredential(
  tx: Db,
  row: RegistryCredentialRow,
): Promise<RegistryCredentialRow | undefined> {
  const twin = await registryCredentialFor(tx, row.accountId, row.server);
  if (!twin) await tx.insertInto('registryCredential').values(row).execute();
  return twin;
}

export const registryCredentialFor = (
  db: Db,
  accountId: string,
  server: string,
): Promise<RegistryCredentialRow | undefined> =>
  db
    .selectFrom('registryCredential')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('server', '=', server)
    .executeTakeFirst();

export const registryCredentialsOf = (db: Db, accountId: string): Promise<RegistryCredentialRow[]> =>
  db
    .selectFrom('registryCredential')
    .selectAll()
    .where('accountId', '=', accountId)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();

export const deleteRegistryCredential = (
  tx: Db,
  accountId: string,
  id: string,
): Promise<RegistryCredentialRow | undefined> =>
  tx
    .deleteFrom('registryCredential')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .returningAll()
    .executeTakeFirst();
