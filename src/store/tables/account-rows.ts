/** Rows of an account, for its deletion. */
import { sql } from 'kysely';
import type { Db } from '../store.ts';

/**
 * Tables with rows of an account and the column that names it, parents last. Rows that reference
 * these by `on delete cascade` need no entry.
 */
export const accountTables = [
  ['dueAct', 'ownerId'],
  ['label', 'ownerId'],
  ['portShare', 'accountId'],
  ['gatewayGrant', 'accountId'],
  ['gpuUse', 'accountId'],
  ['instance', 'ownerId'],
  ['volume', 'ownerId'],
  ['snapshot', 'ownerId'],
  ['image', 'ownerId'],
  ['variable', 'holderId'],
  ['egress', 'holderId'],
  ['identity', 'accountId'],
  ['webhookBacklog', 'accountId'],
  ['webhookDelivery', 'accountId'],
  ['webhookCursor', 'accountId'],
  ['webhook', 'ownerId'],
  ['registryCredential', 'accountId'],
  ['sshKey', 'accountId'],
  ['apiKey', 'accountId'],
  ['passwordLink', 'accountId'],
  ['session', 'accountId'],
  ['totp', 'accountId'],
  ['recoveryCode', 'accountId'],
  ['passkey', 'accountId'],
  ['quota', 'accountId'],
  ['template', 'accountId'],
  ['budget', 'accountId'],
  ['paidTime', 'accountId'],
  ['operation', 'accountId'],
  ['idempotency', 'accountId'],
  ['creditGrant', 'accountId'],
  ['event', 'accountId'],
] as const;

export async function hasUncleanInstances(db: Db, ownerId: string): Promise<boolean> {
  const unclean = db.selectFrom('instance').select('id').where('ownerId', '=', ownerId);
  const row = await unclean
    .where((where) => where.or([where('desired', '!=', 'released'), where('dueAtMs', 'is not', null)]))
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Whether rows of volumes, snapshots or images are left, which their reconcilers delete. */
export async function hasStoredResources(db: Db, ownerId: string): Promise<boolean> {
  for (const table of ['volume', 'snapshot', 'image'] as const)
    if (await db.selectFrom(table).select('id').where('ownerId', '=', ownerId).limit(1).executeTakeFirst()) return true;
  return false;
}

/** Entries and usage periods stay, with the name of the account. */
export async function deleteAccountRows(tx: Db, accountId: string, deletedAtMs: number): Promise<void> {
  const account = tx.selectFrom('account').select(['id', 'username']).where('id', '=', accountId);
  await tx
    .insertInto('formerAccount')
    .columns(['id', 'username', 'deletedAtMs'])
    .expression(account.select(sql<number>`${sql.lit(deletedAtMs)}`.as('deletedAtMs')))
    .execute();
  const instances = tx.selectFrom('instance').select('id').where('ownerId', '=', accountId);
  await tx.deleteFrom('metricHour').where('instanceId', 'in', instances).execute();
  for (const [table, column] of accountTables)
    await sql`delete from ${sql.table(table)} where ${sql.ref(column)} = ${accountId}`.execute(tx);
  await tx.deleteFrom('account').where('id', '=', accountId).execute();
}
