/** Refunds to the sources that paid: cash first, then credits, then vouchers. */
import type { Micros } from '../regions/catalog.ts';
import type { CreditGrant, Payment, Purse } from './purse.ts';

const ledgers: readonly Payment['ledger'][] = ['cash', 'credit', 'voucher'];

/** An entry that paid, and what of it has not been refunded. */
export interface PaidEntry extends Payment {
  entryId: number;
}

/** Refunds at most what the entries have left; the last entry of a ledger comes first. */
export function planRefund(paid: readonly PaidEntry[], amountMicros: Micros): PaidEntry[] {
  let left = amountMicros;
  return ledgers
    .flatMap((ledger) => paid.filter((one) => one.ledger === ledger).toSorted((a, b) => b.entryId - a.entryId))
    .map((one) => {
      const refund = one.amountMicros < left ? one.amountMicros : left;
      left -= refund;
      return { ...one, amountMicros: refund };
    })
    .filter((one) => one.amountMicros > 0n);
}

/** `spent` are grants of which nothing was left. */
export function refundTo(purse: Purse, spent: readonly CreditGrant[], refunds: readonly Payment[]): Purse {
  const sumOf = (ledger: Payment['ledger'], grantId: string): Micros =>
    refunds.reduce((sum, one) => (one.ledger === ledger && one.grantId === grantId ? sum + one.amountMicros : sum), 0n);
  const grants = [...purse.grants, ...spent.filter(({ id }) => !purse.grants.some((one) => one.id === id))];
  return {
    ...purse,
    cashMicros: purse.cashMicros + sumOf('cash', ''),
    grants: grants.map((grant) => ({ ...grant, leftMicros: grant.leftMicros + sumOf(grant.kind, grant.id) })),
  };
}
