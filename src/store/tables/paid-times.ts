/** Paid time of instances. The instance is locked before its row here. */
import { sql, type Selectable } from 'kysely';
import { paidAheadModes, type PaidTime } from '../../domain/paid-time.ts';
import { encodeFlag, oneOf } from '../db/columns.ts';
import type { PaidTimeTable } from '../db/billing-schema.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

/** `firstEntryId` is the first entry that paid for it; 0 if nothing was paid. */
export type StoredPaidTime = PaidTime & Pick<PaidTimeTable, 'instanceId' | 'accountId' | 'firstEntryId'>;

const fromRow = (row: Selectable<PaidTimeTable>): StoredPaidTime => ({
  ...row,
  chargeMode: oneOf(paidAheadModes, row.chargeMode),
  priceMicros: BigInt(row.priceMicros),
  isPaid: row.isPaid === 1,
});

const byInstance = prepared<{ instanceId: string }>()((db, p) =>
  db.selectFrom('paidTime').selectAll().where('instanceId', '=', p('instanceId')),
);

export async function paidTimeOf(db: Db, instanceId: string): Promise<StoredPaidTime | undefined> {
  const [row] = await byInstance(db, { instanceId });
  return row && fromRow(row);
}

export async function savePaidTime(tx: Db, paid: StoredPaidTime): Promise<void> {
  const row = { ...paid, priceMicros: Number(paid.priceMicros), isPaid: encodeFlag(paid.isPaid) };
  await tx
    .insertInto('paidTime')
    .values(row)
    .onConflict((conflict) => conflict.column('instanceId').doUpdateSet(row))
    .execute();
}

export async function deletePaidTime(tx: Db, instanceId: string): Promise<void> {
  await tx.deleteFrom('paidTime').where('instanceId', '=', instanceId).execute();
}

export interface DuePaidTime {
  instanceId: string;
  accountId: string;
  dueAtMs: number;
}

/** Rows with a warning or an end to handle, longest due first; `after` null starts at the first. */
export async function duePaidTimes(
  db: Db,
  nowMs: number,
  after: Pick<DuePaidTime, 'dueAtMs' | 'instanceId'> | null,
  limit: number,
): Promise<DuePaidTime[]> {
  let due = db.selectFrom('paidTime').select(['instanceId', 'accountId', 'dueAtMs']).where('dueAtMs', '<=', nowMs);
  if (after) due = due.where(sql<boolean>`("dueAtMs", "instanceId") > (${after.dueAtMs}, ${after.instanceId})`);
  const rows = await due.orderBy('dueAtMs').orderBy('instanceId').limit(limit).execute();
  return rows.map(({ dueAtMs, ...row }) => ({ ...row, dueAtMs: dueAtMs ?? nowMs }));
}
