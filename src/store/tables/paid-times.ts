/** Paid time of instances. The instance is locked before its row here. */
import { sql, type Selectable, type SqlBool } from 'kysely';
import { paidAheadModes, type PaidTime } from '../../domain/money/paid-time.ts';
import { encodeFlag, oneOf } from '../db/columns.ts';
import type { PaidTimeTable } from '../db/billing-schema.ts';
import { count, prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

/**
 * `firstEntryId` is the first entry that paid for it; 0 if nothing was paid. `runSeq` is the event
 * that opened the period of the run with which it began.
 */
export type StoredPaidTime = PaidTime & Pick<PaidTimeTable, 'instanceId' | 'accountId' | 'firstEntryId' | 'runSeq'>;

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

const dueRows = prepared<{ nowMs: number; afterMs: number; afterId: string; limit: number }>()((db, p) =>
  db
    .selectFrom('paidTime')
    .select(['instanceId', 'accountId', 'dueAtMs'])
    .where('dueAtMs', '<=', p('nowMs'))
    .where(sql<SqlBool>`("dueAtMs", "instanceId") > (cast(${p('afterMs')} as bigint), ${p('afterId')})`)
    .orderBy('dueAtMs')
    .orderBy('instanceId')
    .limit(count(p('limit'))),
);

/** Rows with a warning or an end to handle, longest due first; `after` null starts at the first. */
export async function duePaidTimes(
  db: Db,
  nowMs: number,
  after: Pick<DuePaidTime, 'dueAtMs' | 'instanceId'> | null,
  limit: number,
): Promise<DuePaidTime[]> {
  const { dueAtMs: afterMs, instanceId: afterId } = after ?? { dueAtMs: 0, instanceId: '' };
  const rows = await dueRows(db, { nowMs, afterMs, afterId, limit });
  return rows.map(({ dueAtMs, ...row }) => ({ ...row, dueAtMs: dueAtMs ?? nowMs }));
}
