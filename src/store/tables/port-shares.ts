/** Links that open one port of an instance, made and revoked under the account's lock. */
import type { Selectable } from 'kysely';
import type { PortShareTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export type PortShareRow = Selectable<PortShareTable>;

export async function insertShare(tx: Db, row: PortShareRow): Promise<void> {
  await tx.insertInto('portShare').values(row).execute();
}

export async function activeShare(db: Db, hash: string, nowMs: number): Promise<PortShareRow | undefined> {
  return db
    .selectFrom('portShare')
    .innerJoin('account', 'account.id', 'portShare.accountId')
    .selectAll('portShare')
    .where('portShare.hash', '=', hash)
    .where('portShare.expiresAtMs', '>', nowMs)
    .where('account.disabled', '=', 0)
    .executeTakeFirst();
}

export async function sharesOf(db: Db, instanceId: string, nowMs: number): Promise<PortShareRow[]> {
  return db
    .selectFrom('portShare')
    .selectAll()
    .where('instanceId', '=', instanceId)
    .where('expiresAtMs', '>', nowMs)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();
}

export async function deleteShare(tx: Db, instanceId: string, id: string): Promise<PortShareRow | undefined> {
  return tx
    .deleteFrom('portShare')
    .where('id', '=', id)
    .where('instanceId', '=', instanceId)
    .returningAll()
    .executeTakeFirst();
}

/** Call in the transaction that terminates the instance. */
export async function deleteSharesOf(tx: Db, instanceId: string): Promise<void> {
  await tx.deleteFrom('portShare').where('instanceId', '=', instanceId).execute();
}

export async function deleteExpiredShares(tx: Db, nowMs: number): Promise<void> {
  await tx.deleteFrom('portShare').where('expiresAtMs', '<=', nowMs).execute();
}
