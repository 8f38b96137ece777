/**
 * Handovers to the gateway and the sessions made of them. What ends a login, an API key or an account ends its grants in the same
 * transaction; making and redeeming one takes the account's lock (`lockAccount`), so that none is made beside such an end unseen.
 */
import type { Selectable } from 'kysely';
import type { GatewayGrantTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export type GatewayGrantRow = Selectable<GatewayGrantTable>;

export async function insertGrant(tx: Db, row: GatewayGrantRow): Promise<void> {
  await tx.insertInto('gatewayGrant').values(row).execute();
}

/** A grant that has not expired, nor ended with its login or account. That the login's token expired does not end it. */
export async function activeGrant(
  db: Db,
  hash: string,
  kind: GatewayGrantRow['kind'],
  nowMs: number,
): Promise<GatewayGrantRow | undefined> {
  return db
    .selectFrom('gatewayGrant')
    .innerJoin('account', 'account.id', 'gatewayGrant.accountId')
    .leftJoin('session', 'session.id', 'gatewayGrant.sessionId')
    .selectAll('gatewayGrant')
    .where('gatewayGrant.hash', '=', hash)
    .where('gatewayGrant.kind', '=', kind)
    .where('gatewayGrant.expiresAtMs', '>', nowMs)
    .where('account.disabled', '=', 0)
    .where('session.revokedAtMs', 'is', null)
    .executeTakeFirst();
}

/** False when it was gone: of two who bring the same handover, one takes it. */
export async function deleteGrant(tx: Db, hash: string): Promise<boolean> {
  const result = await tx.deleteFrom('gatewayGrant').where('hash', '=', hash).executeTakeFirst();
  return result.numDeletedRows === 1n;
}

/** Never brings back a session that has ended meanwhile. */
export async function extendGrant(tx: Db, hash: string, expiresAtMs: number): Promise<void> {
  await tx
    .updateTable('gatewayGrant')
    .set({ expiresAtMs })
    .where('hash', '=', hash)
    .where('expiresAtMs', '<', expiresAtMs)
    .execute();
}

/** The account's sessions that have not expired, the last used first. */
export async function sessionGrantsOf(db: Db, accountId: string, nowMs: number): Promise<GatewayGrantRow[]> {
  return db
    .selectFrom('gatewayGrant')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('kind', '=', 'session')
    .where('expiresAtMs', '>', nowMs)
    .orderBy('expiresAtMs', 'desc')
    .orderBy('id')
    .execute();
}

export async function deleteSessionGrant(tx: Db, accountId: string, id: string): Promise<GatewayGrantRow | undefined> {
  return tx
    .deleteFrom('gatewayGrant')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .where('kind', '=', 'session')
    .returningAll()
    .executeTakeFirst();
}

/**
 * In the transaction that terminates the instance. A session opens all that its account has, and a browser keeps one: it stays while there
 * is another instance of the account's, whose notebook may be saved by it, or the one it was opened for, and goes with the last.
 */
export async function revokeGrantsOfInstance(tx: Db, instanceId: string): Promise<void> {
  await tx.deleteFrom('gatewayGrant').where('instanceId', '=', instanceId).where('kind', '=', 'handover').execute();
  const owner = tx.selectFrom('instance').select('ownerId').where('id', '=', instanceId);
  await tx
    .deleteFrom('gatewayGrant')
    .where('kind', '=', 'session')
    .where(({ or, eb }) => or([eb('instanceId', '=', instanceId), eb('accountId', 'in', owner)]))
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('instance')
            .select('instance.id')
            .where('instance.id', '<>', instanceId)
            .where('instance.desired', '<>', 'released')
            .where(({ or, eb, ref }) =>
              or([
                eb('instance.ownerId', '=', ref('gatewayGrant.accountId')),
                eb('instance.id', '=', ref('gatewayGrant.instanceId')),
              ]),
            ),
        ),
      ),
    )
    .execute();
}

export async function revokeGrantsOfSession(tx: Db, sessionId: string): Promise<void> {
  await tx.deleteFrom('gatewayGrant').where('sessionId', '=', sessionId).execute();
}

/** Those that came of any API key of the account: a grant does not say which. */
export async function revokeGrantsOfApiKeys(tx: Db, accountId: string): Promise<void> {
  await tx.deleteFrom('gatewayGrant').where('accountId', '=', accountId).where('sessionId', 'is', null).execute();
}

export async function revokeGrantsOfAccount(tx: Db, accountId: string): Promise<void> {
  await tx.deleteFrom('gatewayGrant').where('accountId', '=', accountId).execute();
}

export async function deleteExpiredGrants(tx: Db, nowMs: number): Promise<void> {
  await tx.deleteFrom('gatewayGrant').where('expiresAtMs', '<=', nowMs).execute();
}
