/**
 * Handovers to the gateway, and sessions made from them. Revoking a login, API key or account
 * deletes its grants; making and redeeming acquires `lockAccount`, so none is made meanwhile.
 */
import { sql, type Selectable } from 'kysely';
import type { GatewayGrantTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type GatewayGrantRow = Selectable<GatewayGrantTable>;

export async function insertGrant(tx: Db, row: GatewayGrantRow): Promise<void> {
  await tx.insertInto('gatewayGrant').values(row).execute();
}

export interface ActiveGrant extends GatewayGrantRow {
  /** Limits of the API key of origin. */
  keyExpiresAtMs: number | null;
  keyAddresses: string | null;
}

/** An unexpired grant of an active login or key and account, even with an expired login token. */
export async function activeGrant(
  db: Db,
  hash: string,
  kind: GatewayGrantRow['kind'],
  nowMs: number,
): Promise<ActiveGrant | undefined> {
  return db
    .selectFrom('gatewayGrant')
    .innerJoin('account', 'account.id', 'gatewayGrant.accountId')
    .leftJoin('session', 'session.id', 'gatewayGrant.sessionId')
    .leftJoin('apiKey', 'apiKey.id', 'gatewayGrant.apiKeyId')
    .selectAll('gatewayGrant')
    .select(['apiKey.expiresAtMs as keyExpiresAtMs', 'apiKey.addresses as keyAddresses'])
    .where('gatewayGrant.hash', '=', hash)
    .where('gatewayGrant.kind', '=', kind)
    .where('gatewayGrant.expiresAtMs', '>', nowMs)
    .where('account.disabled', '=', sql.lit(0))
    .where('session.revokedAtMs', 'is', null)
    .where(({ or, eb }) => or([eb('apiKey.expiresAtMs', 'is', null), eb('apiKey.expiresAtMs', '>', nowMs)]))
    .executeTakeFirst();
}

/** Returns false when already deleted: of two redemptions of one handover, one wins. */
export async function deleteGrant(tx: Db, hash: string): Promise<boolean> {
  const result = await tx.deleteFrom('gatewayGrant').where('hash', '=', hash).executeTakeFirst();
  return result.numDeletedRows === 1n;
}

/** Never revives a session that ended meanwhile. */
export async function extendGrant(tx: Db, hash: string, expiresAtMs: number): Promise<void> {
  await tx
    .updateTable('gatewayGrant')
    .set({ expiresAtMs })
    .where('hash', '=', hash)
    .where('expiresAtMs', '<', expiresAtMs)
    .execute();
}

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

/** Leaves the sessions of the account that were used last. */
export async function deleteOldestSessionGrants(tx: Db, accountId: string, kept: number): Promise<void> {
  const newest = tx
    .selectFrom('gatewayGrant as newest')
    .select('newest.hash')
    .where('newest.accountId', '=', accountId)
    .where('newest.kind', '=', 'session')
    .orderBy('newest.expiresAtMs', 'desc')
    .orderBy('newest.id')
    .limit(kept);
  await tx
    .deleteFrom('gatewayGrant')
    .where('accountId', '=', accountId)
    .where('kind', '=', 'session')
    .where('hash', 'not in', newest)
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
 * Call when the instance is terminated. A session opens all instances of its account, so it stays
 * while another instance remains, of the account or the one the session was opened for.
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

/** `exceptSession`: a login whose grants stay. */
export async function revokeGrantsOfAccount(tx: Db, accountId: string, exceptSession = ''): Promise<void> {
  await tx
    .deleteFrom('gatewayGrant')
    .where('accountId', '=', accountId)
    .where(({ or, eb }) => or([eb('sessionId', 'is', null), eb('sessionId', '<>', exceptSession)]))
    .execute();
}

export async function deleteExpiredGrants(tx: Db, nowMs: number): Promise<void> {
  await tx.deleteFrom('gatewayGrant').where('expiresAtMs', '<=', nowMs).execute();
}
