/** Environment variables of installation, accounts and instances. Values arrive sealed. */
import type { Selectable } from 'kysely';
import type { VariableTable } from '../db/account-schema.ts';
import type { Db } from '../store.ts';

export type VariableRow = Selectable<VariableTable>;

export const variablesOf = (db: Db, holderIds: readonly string[]): Promise<VariableRow[]> =>
  db.selectFrom('variable').selectAll().where('holderId', 'in', holderIds).orderBy('name').execute();

export async function saveVariables(tx: Db, rows: readonly VariableRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx
    .insertInto('variable')
    .values(rows)
    .onConflict((conflict) =>
      conflict.columns(['holderId', 'name']).doUpdateSet((row) => ({
        isSecret: row.ref('excluded.isSecret'),
        sealed: row.ref('excluded.sealed'),
        updatedAtMs: row.ref('excluded.updatedAtMs'),
      })),
    )
    .execute();
}

export async function deleteVariables(tx: Db, holderId: string, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  await tx.deleteFrom('variable').where('holderId', '=', holderId).where('name', 'in', names).execute();
}

export async function deleteVariablesOf(tx: Db, holderId: string): Promise<void> {
  await tx.deleteFrom('variable').where('holderId', '=', holderId).execute();
}
