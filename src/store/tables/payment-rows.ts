/** Payments of providers. A row keeps a payment from being credited twice. */
import type { Selectable } from 'kysely';
import type { PaymentRefundTable, PaymentTable } from '../db/billing-schema.ts';
import type { Db } from '../store.ts';

export type PaymentRow = Selectable<PaymentTable>;
type OfIntent = Pick<PaymentRow, 'provider' | 'intentId'>;

/** False if the payment, or its money under another id, was taken before. */
export async function claimPayment(tx: Db, payment: PaymentRow): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('payment')
    .values(payment)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return Number(numInsertedOrUpdatedRows) === 1;
}

export async function setPaymentEntry(tx: Db, id: string, entryId: number): Promise<void> {
  await tx.updateTable('payment').set({ entryId }).where('id', '=', id).execute();
}

export async function creditedPayment(tx: Db, { provider, intentId }: OfIntent): Promise<PaymentRow | undefined> {
  return tx
    .selectFrom('payment')
    .selectAll()
    .where('provider', '=', provider)
    .where('intentId', '=', intentId)
    .where('intentId', '<>', '')
    .where('entryId', 'is not', null)
    .executeTakeFirst();
}

export async function refundOf(
  tx: Db,
  { provider, intentId }: OfIntent,
): Promise<Selectable<PaymentRefundTable> | undefined> {
  return tx
    .selectFrom('paymentRefund')
    .selectAll()
    .where('provider', '=', provider)
    .where('intentId', '=', intentId)
    .executeTakeFirst();
}

/** Locks the refunds of a payment, and returns by how much they rose; 0 for a known total. */
export async function raiseRefund(
  tx: Db,
  { provider, intentId, totalMicros }: OfIntent & { totalMicros: number },
): Promise<number> {
  await tx
    .insertInto('paymentRefund')
    .values({ provider, intentId, askedMicros: 0, takenMicros: 0 })
    .onConflict((conflict) => conflict.columns(['provider', 'intentId']).doUpdateSet({ intentId }))
    .execute();
  const before = (await refundOf(tx, { provider, intentId }))?.askedMicros ?? 0;
  if (totalMicros <= before) return 0;
  await tx
    .updateTable('paymentRefund')
    .set({ askedMicros: totalMicros })
    .where('provider', '=', provider)
    .where('intentId', '=', intentId)
    .execute();
  return totalMicros - before;
}

export async function saveTaken(tx: Db, { provider, intentId }: OfIntent, micros: number): Promise<void> {
  await tx
    .updateTable('paymentRefund')
    .set((eb) => ({ takenMicros: eb('takenMicros', '+', micros) }))
    .where('provider', '=', provider)
    .where('intentId', '=', intentId)
    .execute();
}
