/** Logins. A row stays until token and gateway sessions have ended: one revocation ends all. */
import { sql, type Selectable } from 'kysely';
import type { SessionTable } from '../db/account-schema.ts';
import type { Flag } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

export interface CredentialHolder {
  accountId: string;
  username: string;
  email: string;
  roles: string;
}

export async function insertSession(tx: Db, row: Selectable<SessionTable>): Promise<void> {
  await tx.insertInto('session').values(row).execute();
}

const holder = prepared<{ id: string; nowMs: number }>()((db, p) =>
  db
    .selectFrom('session')
    .innerJoin('account', 'account.id', 'session.accountId')
    .select(['account.id as accountId', 'account.username', 'account.email', 'account.roles'])
    .select(['session.lastUsedAtMs', 'session.secondFactor'])
    .where('session.id', '=', p('id'))
    .where('session.revokedAtMs', 'is', null)
    .where('session.expiresAtMs', '>', p('nowMs'))
    .where('account.disabled', '=', sql.lit(0)),
);

export async function holderOfSession(
  db: Db,
  id: string,
  nowMs: number,
): Promise<(CredentialHolder & { lastUsedAtMs: number; secondFactor: Flag }) | undefined> {
  const [row] = await holder(db, { id, nowMs });
  return row;
}

export async function hasActiveSession(db: Db, accountId: string, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('session')
    .select('id')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .where('revokedAtMs', 'is', null)
    .executeTakeFirst();
  return row !== undefined;
}

/** The last used first. */
export const activeSessionsOf = (
  db: Db,
  accountId: string,
  nowMs: number,
  limit: number,
): Promise<Selectable<SessionTable>[]> =>
  db
    .selectFrom('session')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('revokedAtMs', 'is', null)
    .where('expiresAtMs', '>', nowMs)
    .orderBy('lastUsedAtMs', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute();

export interface ProviderLogin {
  issuer: string;
  /** Null, or null for `sid`, but not both. */
  subject: string | null;
  sid: string | null;
}

/** Active sessions of the provider's session, or of all the subject's without one. */
export async function sessionsOfProvider(
  tx: Db,
  { issuer, subject, sid }: ProviderLogin,
  nowMs: number,
): Promise<Pick<Selectable<SessionTable>, 'id' | 'accountId'>[]> {
  if (subject === null && sid === null) return [];
  let found = tx
    .selectFrom('session')
    .select(['id', 'accountId'])
    .where('issuer', '=', issuer)
    .where('revokedAtMs', 'is', null)
    .where('expiresAtMs', '>', nowMs);
  if (subject !== null) found = found.where('subject', '=', subject);
  if (sid !== null) found = found.where('providerSid', '=', sid);
  return found.execute();
}

/** Returns false for a session already revoked. */
export async function revokeSession(tx: Db, id: string, atMs: number): Promise<boolean> {
  const result = await tx
    .updateTable('session')
    .set({ revokedAtMs: atMs })
    .where('id', '=', id)
    .where('revokedAtMs', 'is', null)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function revokeSessionsOf(tx: Db, accountId: string, atMs: number, except = ''): Promise<void> {
  await tx
    .updateTable('session')
    .set({ revokedAtMs: atMs })
    .where('accountId', '=', accountId)
    .where('id', '<>', except)
    .where('revokedAtMs', 'is', null)
    .execute();
}

export async function setSecondFactorOfSession(tx: Db, id: string, secondFactor: Flag): Promise<void> {
  await tx.updateTable('session').set({ secondFactor }).where('id', '=', id).execute();
}

export async function deleteExpiredSessions(tx: Db, nowMs: number): Promise<void> {
  await tx
    .deleteFrom('session')
    .where('expiresAtMs', '<=', nowMs)
    .where((row) =>
      row.not(
        row.exists(row.selectFrom('gatewayGrant').select('hash').whereRef('gatewayGrant.sessionId', '=', 'session.id')),
      ),
    )
    .execute();
}
