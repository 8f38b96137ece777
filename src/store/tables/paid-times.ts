/** Paid time of instances. The instance is locked before its row here. */
import type { Selectable } from 'kysely';
import type { PaidTime } from '../../domain/money/paid-time.ts';
import { paidAheadModes } from '../../domain/regions/catalog.ts';
import { encodeFlag, oneOf } from '../db/columns.ts';
import type { PaidTimeTable } from '../db/billing-schema.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { dropActs, followAct } from './due-acts.ts';

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
  const { instanceId: subjectId, accountId: ownerId, dueAtMs } = paid;
  await followAct(tx, { kind: 'paidTime', subjectId, ownerId, dueAtMs });
}

export async function deletePaidTime(tx: Db, instanceId: string): Promise<void> {
  await tx.deleteFrom('paidTime').where('instanceId', '=', instanceId).execute();
  await dropActs(tx, instanceId, ['paidTime']);
}
