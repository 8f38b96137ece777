/** Payments of providers. A row keeps a payment from being credited twice. */
import { sql, type Selectable } from 'kysely';
import type { PaymentClaimTable, PaymentRefundTable, PaymentTable } from '../db/billing-schema.ts';
import type { Flag } from '../db/columns.ts';
import type { Db } from '../store.ts';

export type PaymentRow = Selectable<PaymentTable>;
export type RefundRow = Selectable<PaymentRefundTable>;
export type ClaimRow = Selectable<PaymentClaimTable>;
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

/** Locks the refunds and disputes of a payment. */
export async function lockRefund(tx: Db, { provider, intentId }: OfIntent): Promise<RefundRow> {
  return tx
    .insertInto('paymentRefund')
    .values({ provider, intentId, askedMicros: 0, takenMicros: 0 })
    .onConflict((conflict) => conflict.columns(['provider', 'intentId']).doUpdateSet({ intentId }))
    .returningAll()
    .executeTakeFirstOrThrow();
}

export async function saveRefund(
  tx: Db,
  { provider, intentId }: OfIntent,
  changed: Partial<Pick<RefundRow, 'askedMicros' | 'takenMicros' | 'chargeMicros' | 'chargeAtMs'>>,
): Promise<void> {
  await tx
    .updateTable('paymentRefund')
    .set(changed)
    .where('provider', '=', provider)
    .where('intentId', '=', intentId)
    .execute();
}

export const claimsOf = (tx: Db, { provider, intentId }: OfIntent): Promise<ClaimRow[]> =>
  tx.selectFrom('paymentClaim').selectAll().where('provider', '=', provider).where('intentId', '=', intentId).execute();

/** Adds what an event says to what earlier ones said; a claim never begins or ends twice. */
export async function mergeClaim(tx: Db, claim: ClaimRow): Promise<void> {
  await tx
    .insertInto('paymentClaim')
    .values(claim)
    .onConflict((conflict) =>
      conflict.columns(['provider', 'id']).doUpdateSet((eb) => ({
        hasBegun: sql<Flag>`case when excluded."hasBegun" = 1 then 1 else "paymentClaim"."hasBegun" end`,
        endedAtMs: eb.fn.coalesce('paymentClaim.endedAtMs', 'excluded.endedAtMs'),
      })),
    )
    .execute();
}
