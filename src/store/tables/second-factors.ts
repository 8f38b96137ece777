/** Authenticator apps, recovery codes and passkeys, written under the account's lock. */
import type { Selectable } from 'kysely';
import type { SecondFactor } from '../../domain/access/second-factor.ts';
import type { PasskeyTable, TotpTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type TotpRow = Selectable<TotpTable>;

export const totpOf = (db: Db, accountId: string): Promise<TotpRow | undefined> =>
  db.selectFrom('totp').selectAll().where('accountId', '=', accountId).executeTakeFirst();

/** Replaces a secret that was not confirmed. */
export async function putUnconfirmedTotp(
  tx: Db,
  row: Pick<TotpRow, 'accountId' | 'sealed' | 'createdAtMs'>,
): Promise<void> {
  await tx.deleteFrom('totp').where('accountId', '=', row.accountId).where('confirmedAtMs', 'is', null).execute();
  await tx.insertInto('totp').values(row).execute();
}

export async function confirmTotp(tx: Db, accountId: string, at: { nowMs: number; step: number }): Promise<void> {
  await tx
    .updateTable('totp')
    .set({ confirmedAtMs: at.nowMs, lastStep: at.step })
    .where('accountId', '=', accountId)
    .execute();
}

/** False for a step that was used, or one before it. */
export async function useTotpStep(tx: Db, accountId: string, step: number): Promise<boolean> {
  const result = await tx
    .updateTable('totp')
    .set({ lastStep: step })
    .where('accountId', '=', accountId)
    .where('lastStep', '<', step)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function deleteTotp(tx: Db, accountId: string): Promise<void> {
  await tx.deleteFrom('totp').where('accountId', '=', accountId).execute();
}

export async function replaceRecoveryCodes(tx: Db, accountId: string, hashes: readonly string[]): Promise<void> {
  await tx.deleteFrom('recoveryCode').where('accountId', '=', accountId).execute();
  if (hashes.length === 0) return;
  await tx
    .insertInto('recoveryCode')
    .values(hashes.map((hash) => ({ hash, accountId })))
    .execute();
}

/** False for an unknown or used code. */
export async function useRecoveryCode(tx: Db, accountId: string, hash: string): Promise<boolean> {
  const result = await tx
    .deleteFrom('recoveryCode')
    .where('hash', '=', hash)
    .where('accountId', '=', accountId)
    .executeTakeFirst();
  return result.numDeletedRows === 1n;
}

export async function countRecoveryCodes(db: Db, accountId: string): Promise<number> {
  const codes = db.selectFrom('recoveryCode').where('accountId', '=', accountId);
  return (await codes.select((eb) => eb.fn.countAll<number>().as('count')).executeTakeFirstOrThrow()).count;
}

export type PasskeyRow = Selectable<PasskeyTable>;

/** Oldest first. */
export const passkeysOf = (db: Db, accountId: string): Promise<PasskeyRow[]> =>
  db
    .selectFrom('passkey')
    .selectAll()
    .where('accountId', '=', accountId)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();

export const passkeyByCredential = (db: Db, credentialId: string): Promise<PasskeyRow | undefined> =>
  db.selectFrom('passkey').selectAll().where('credentialId', '=', credentialId).executeTakeFirst();

/** False for a credential that is registered. */
export async function insertPasskey(tx: Db, row: PasskeyRow): Promise<boolean> {
  const result = await tx
    .insertInto('passkey')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return result.numInsertedOrUpdatedRows === 1n;
}

/** False for a counter that does not grow; authenticators without one stay at 0. */
export async function usePasskey(tx: Db, id: string, use: { counter: number; nowMs: number }): Promise<boolean> {
  const result = await tx
    .updateTable('passkey')
    .set({ counter: use.counter, lastUsedAtMs: use.nowMs })
    .where('id', '=', id)
    .where('counter', use.counter === 0 ? '=' : '<', use.counter)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function deletePasskey(tx: Db, accountId: string, id: string): Promise<PasskeyRow | undefined> {
  return tx
    .deleteFrom('passkey')
    .where('id', '=', id)
    .where('accountId', '=', accountId)
    .returningAll()
    .executeTakeFirst();
}

/** Writes the list of the account's row, and drops the recovery codes with the last factor. */
export async function writeSecondFactors(tx: Db, accountId: string): Promise<SecondFactor[]> {
  const totp = await totpOf(tx, accountId);
  const passkey = await tx.selectFrom('passkey').select('id').where('accountId', '=', accountId).executeTakeFirst();
  const factors: SecondFactor[] = [
    ...(typeof totp?.confirmedAtMs === 'number' ? (['totp'] as const) : []),
    ...(passkey === undefined ? [] : (['passkey'] as const)),
  ];
  const list = { secondFactors: JSON.stringify(factors) };
  await tx.updateTable('account').set(list).where('id', '=', accountId).execute();
  if (factors.length === 0) await replaceRecoveryCodes(tx, accountId, []);
  return factors;
}

export async function deleteSecondFactors(tx: Db, accountId: string): Promise<void> {
  for (const table of ['totp', 'passkey'] as const)
    await tx.deleteFrom(table).where('accountId', '=', accountId).execute();
  await writeSecondFactors(tx, accountId);
}
