/** Egress policies: few rows, read as a whole. */
import type { EgressPolicy } from '../../domain/regions/egress.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { parseEgress } from './json-schemas.ts';

const allRows = prepared()((db) => db.selectFrom('egress').selectAll());

/** By region or account. */
export async function egressPolicies(db: Db): Promise<Map<string, EgressPolicy>> {
  const rows = await allRows(db, {});
  return new Map(rows.map(({ holderId, policy }) => [holderId, parseEgress(policy, holderId)]));
}

export async function saveEgress(tx: Db, holderId: string, given: EgressPolicy | null): Promise<void> {
  if (given === null) {
    await tx.deleteFrom('egress').where('holderId', '=', holderId).execute();
    return;
  }
  const policy = JSON.stringify(given);
  await tx
    .insertInto('egress')
    .values({ holderId, policy })
    .onConflict((conflict) => conflict.column('holderId').doUpdateSet({ policy }))
    .execute();
}
