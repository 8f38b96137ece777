/** Keys that sign tokens. The setting `signingKeyId` names the active one, by compare and set. */
import type { Selectable } from 'kysely';
import type { SigningKeyTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type SigningKeyRow = Selectable<SigningKeyTable>;

const SETTING = 'signingKeyId';

export async function currentSigningKeyId(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom('setting').select('value').where('name', '=', SETTING).executeTakeFirst();
  return row?.value;
}

export async function signingKeysSince(db: Db, retiredAfterMs: number): Promise<SigningKeyRow[]> {
  return db
    .selectFrom('signingKey')
    .selectAll()
    .where((row) => row.or([row('retiredAtMs', 'is', null), row('retiredAtMs', '>', retiredAfterMs)]))
    .execute();
}

/** Replaces the active key `over` (undefined: none). False when another process was first. */
export async function replaceSigningKey(
  tx: Db,
  over: string | undefined,
  key: Pick<SigningKeyRow, 'kid' | 'privateJwk' | 'publicJwk'>,
  atMs: number,
): Promise<boolean> {
  if (over === undefined) {
    const result = await tx
      .insertInto('setting')
      .values({ name: SETTING, value: key.kid })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    if (result.numInsertedOrUpdatedRows !== 1n) return false;
  } else {
    const result = await tx
      .updateTable('setting')
      .set({ value: key.kid })
      .where('name', '=', SETTING)
      .where('value', '=', over)
      .executeTakeFirst();
    if (result.numUpdatedRows !== 1n) return false;
    // A retired key only verifies: delete its private half.
    await tx.updateTable('signingKey').set({ retiredAtMs: atMs, privateJwk: '' }).where('kid', '=', over).execute();
  }
  await tx
    .insertInto('signingKey')
    .values({ ...key, createdAtMs: atMs, retiredAtMs: null })
    .execute();
  return true;
}

export async function deleteSigningKeysRetiredBefore(tx: Db, ms: number): Promise<void> {
  await tx.deleteFrom('signingKey').where('retiredAtMs', '<=', ms).execute();
}
