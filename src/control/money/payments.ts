/**
 * Payments that a provider reports: each is credited once, however often and in whichever order its
 * events come. Money that cannot be credited, and refunds that the account cannot pay, notify the
 * administrators.
 */
import { toDollars } from '../../domain/regions/catalog.ts';
import { MAX_HELD_MICROS, spendableCash, TAX_LEDGER } from '../../domain/money/purse.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { insertEntry, lockWallet, plainEntry, reversalsOf, saveWallets } from '../../store/tables/ledger.ts';
import {
  claimPayment,
  claimsOf,
  creditedPayment,
  lockRefund,
  mergeClaim,
  saveRefund,
  setPaymentEntry,
  type ClaimRow,
  type PaymentRow,
  type RefundRow,
} from '../../store/tables/payment-rows.ts';
import { encodeFlag } from '../../store/db/columns.ts';
import type { Db, Store } from '../../store/store.ts';
import { notifyAdministrators, type Time } from '../kernel/ports.ts';

export type PaymentEvent =
  | {
      kind: 'paid';
      provider: string;
      paymentId: string;
      /** The provider's name for the money, which refunds carry; '' without. */
      intentId: string;
      accountId: string;
      /** Without the tax. */
      amountMicros: number;
      taxMicros: number;
      currency: string;
      isSubscription: boolean;
    }
  /** The sum of all refunds of a payment, as of a time. */
  | { kind: 'refunded'; provider: string; intentId: string; totalMicros: number; atMs: number }
  /** A refund or dispute that begins or ends. */
  | {
      kind: 'claim';
      of: 'refund' | 'dispute';
      provider: string;
      id: string;
      intentId: string;
      amountMicros: number;
      hasBegun: boolean;
      endedAtMs: number | null;
    };

/** Verifies a message, and reads it; null: it moves no money. Throws for a forged one. */
export type ReadPayment = (body: Buffer, signature: string, nowMs: number) => PaymentEvent | null;

export interface Payments {
  /** Takes an event of Stripe's webhook. Returns the account to credit, if the event names one. */
  takeStripe(body: Buffer, signature: string): Promise<string | null>;
}

export interface PaymentDeps {
  store: Store;
  time: Pick<Time, 'now'>;
  /** Absent: payments by Stripe are off. */
  readStripe?: ReadPayment | undefined;
}

const CURRENCY = 'usd';

export function makePayments({ store, time, readStripe }: PaymentDeps): Payments {
  return {
    async takeStripe(body, signature) {
      if (!readStripe)
        throw new Refusal('not_found', 'payments by Stripe are off on this server: set BERTH_STRIPE_SECRET_FILE');
      const event = readStripe(body, signature, time.now());
      if (event === null) return null;
      const nowMs = time.now();
      await store.write((tx) => (event.kind === 'paid' ? takePayment(tx, event, nowMs) : takeClaim(tx, event, nowMs)));
      return event.kind === 'paid' ? event.accountId : null;
    },
  };
}

type Paid = Extract<PaymentEvent, { kind: 'paid' }>;
type Claimed = Exclude<PaymentEvent, { kind: 'paid' }>;

async function takePayment(tx: Db, { kind: _kind, paymentId, isSubscription, ...paid }: Paid, nowMs: number) {
  const payment: PaymentRow = { ...paid, id: paymentId, entryId: null, atMs: nowMs };
  const { accountId, intentId, provider, amountMicros, taxMicros } = paid;
  if (amountMicros + taxMicros === 0) return;
  // A refund that comes at the same time waits for this row.
  const refund = intentId === '' ? null : await lockRefund(tx, paid);
  if (!(await claimPayment(tx, payment))) return;
  const facts = { provider, paymentId, intentId };
  const why = isSubscription ? SUBSCRIPTION : await whyNotCredited(tx, paid);
  if (why !== null) {
    const amount = toDollars(amountMicros + taxMicros);
    const data = { ...facts, accountId, amount, currency: paid.currency, reason: why };
    const event = { atMs: nowMs, kind: 'billing.paymentUnassigned', subjectId: paymentId, data };
    return notifyAdministrators(tx, event);
  }
  const data = { ...facts, amount: toDollars(amountMicros), tax: toDollars(taxMicros) };
  await appendEvent(tx, { accountId, atMs: nowMs, kind: 'billing.paymentReceived', subjectId: accountId, data });
  await moveCash(tx, accountId, BigInt(amountMicros));
  const reason = `${provider} payment ${intentId || paymentId}`;
  const of = { ...plainEntry, accountId, atMs: nowMs, reason, fromLedger: 'deposits' };
  const entry = await insertEntry(tx, { ...of, kind: 'deposit', toLedger: 'cash', amountMicros });
  if (taxMicros > 0) await insertEntry(tx, { ...of, kind: 'tax', toLedger: TAX_LEDGER, amountMicros: taxMicros });
  await setPaymentEntry(tx, paymentId, entry.id);
  if (refund)
    await settle(tx, { ...payment, entryId: entry.id }, { ...refund, askedMicros: 0 }, 'billing.paymentRefunded');
}

const SUBSCRIPTION =
  'the checkout is a subscription, whose renewals would not be credited: create sessions with "mode" "payment"';

async function whyNotCredited(
  tx: Db,
  { accountId, currency, amountMicros }: Pick<Paid, 'accountId' | 'currency' | 'amountMicros'>,
): Promise<string | null> {
  if (currency !== CURRENCY) return `the currency is ${currency.toUpperCase()}, and accounts are in USD`;
  const account = accountId === '' ? undefined : await accountById(tx, accountId);
  if (!account) return 'client_reference_id names no account';
  const held = BigInt(account.balanceMicros + account.voucherMicros + account.creditMicros);
  return held + BigInt(amountMicros) > MAX_HELD_MICROS ? 'the account would hold more than it may' : null;
}

async function takeClaim(tx: Db, event: Claimed, nowMs: number): Promise<void> {
  const refund = await lockRefund(tx, event);
  if (event.kind === 'claim') {
    const { of: kind, provider, id, intentId, amountMicros, hasBegun, endedAtMs } = event;
    await mergeClaim(tx, { provider, id, intentId, kind, amountMicros, hasBegun: encodeFlag(hasBegun), endedAtMs });
  } else if (event.atMs >= refund.chargeAtMs) {
    refund.chargeMicros =
      event.atMs > refund.chargeAtMs ? event.totalMicros : Math.max(refund.chargeMicros, event.totalMicros);
    refund.chargeAtMs = event.atMs;
    await saveRefund(tx, event, { chargeMicros: refund.chargeMicros, chargeAtMs: refund.chargeAtMs });
  }
  const payment = await creditedPayment(tx, event);
  const isDispute = event.kind === 'claim' && event.of === 'dispute';
  if (payment)
    await settle(
      tx,
      { ...payment, atMs: nowMs },
      refund,
      isDispute ? 'billing.paymentDisputed' : 'billing.paymentRefunded',
    );
}

/** Dollars with tax that the payer has back, or asks back, by all that is known. */
async function askedOf(tx: Db, { chargeMicros, chargeAtMs, ...of }: RefundRow): Promise<number> {
  const claims = await claimsOf(tx, of);
  const sum = (counts: (claim: ClaimRow) => boolean): number =>
    claims.reduce((total, claim) => (counts(claim) ? total + claim.amountMicros : total), 0);
  const stands = ({ hasBegun, endedAtMs }: ClaimRow): boolean => hasBegun === 1 && endedAtMs === null;
  const failed = sum(({ kind, endedAtMs }) => kind === 'refund' && endedAtMs !== null && endedAtMs >= chargeAtMs);
  const refunds = Math.max(
    chargeMicros - failed,
    sum((claim) => claim.kind === 'refund' && stands(claim)),
  );
  return refunds + sum((claim) => claim.kind === 'dispute' && stands(claim));
}

async function settle(tx: Db, payment: PaymentRow, refund: RefundRow, kind: string): Promise<void> {
  const paidMicros = payment.amountMicros + payment.taxMicros;
  const askedMicros = Math.min(await askedOf(tx, refund), paidMicros);
  if (askedMicros === refund.askedMicros) return;
  await saveRefund(tx, refund, { askedMicros });
  const taxOf = (micros: number): number => Number((BigInt(micros) * BigInt(payment.taxMicros)) / BigInt(paidMicros));
  const moreTax = taxOf(askedMicros) - taxOf(refund.askedMicros);
  const moreMicros = askedMicros - refund.askedMicros - moreTax;
  const { accountId, provider, intentId, id: paymentId, entryId, atMs } = payment;
  const facts = { provider, paymentId, intentId };
  const account = await accountById(tx, accountId);
  const missing = (micros: number, reason: string): Promise<void> => {
    const data = { ...facts, accountId, amount: toDollars(micros), reason };
    return notifyAdministrators(tx, { atMs, kind: 'billing.refundUncovered', subjectId: paymentId, data });
  };
  if (!account || entryId === null) return moreMicros > 0 ? missing(moreMicros, 'the account is deleted') : undefined;
  const data = { ...facts, amount: toDollars(Math.abs(moreMicros)), tax: toDollars(Math.abs(moreTax)) };
  const event = { atMs, kind: moreMicros < 0 ? 'billing.paymentRestored' : kind, data };
  await appendEvent(tx, { ...event, accountId, subjectId: accountId });
  if (kind === 'billing.paymentDisputed')
    await notifyAdministrators(tx, { ...event, subjectId: paymentId, data: { ...data, accountId } });
  const of = { ...plainEntry, accountId, atMs, reason: `${provider} refund of ${intentId}` };
  if (moreTax !== 0)
    await insertEntry(tx, { ...of, kind: 'tax', ...between(TAX_LEDGER, moreTax), amountMicros: Math.abs(moreTax) });
  const movedMicros =
    moreMicros > 0
      ? await takeable(tx, payment, refund, moreMicros)
      : Math.min(0, askedMicros - taxOf(askedMicros) - refund.takenMicros);
  if (movedMicros !== 0) {
    await moveCash(tx, accountId, -BigInt(movedMicros));
    const moved = { ...between('cash', movedMicros), amountMicros: Math.abs(movedMicros) };
    const back = movedMicros > 0 ? { kind: 'reversal', reversesId: entryId } : { kind: 'deposit' };
    await insertEntry(tx, { ...of, ...moved, ...back });
    await saveRefund(tx, refund, { takenMicros: refund.takenMicros + movedMicros });
  }
  if (movedMicros < moreMicros)
    await missing(moreMicros - movedMicros, 'the account has spent the money, or it was taken back');
}

/** A positive amount leaves the ledger account for outside; a negative one comes back. */
const between = (ledger: string, micros: number) =>
  micros > 0 ? { fromLedger: ledger, toLedger: 'deposits' } : { fromLedger: 'deposits', toLedger: ledger };

async function takeable(tx: Db, payment: PaymentRow, { takenMicros }: RefundRow, micros: number): Promise<number> {
  const { accountId, entryId } = payment;
  const before = entryId === null ? [] : await reversalsOf(tx, { accountId, id: entryId });
  const byAdministrators = before.reduce(
    (sum, { byAccountId, amountMicros }) => (byAccountId === '' ? sum : sum + amountMicros),
    0,
  );
  const { wallet } = await lockWallet(tx, accountId);
  const unreversed = payment.amountMicros - byAdministrators - takenMicros;
  return Math.max(0, Math.min(micros, unreversed, Number(spendableCash(wallet.purse))));
}

async function moveCash(tx: Db, accountId: string, micros: bigint): Promise<void> {
  const {
    wallets,
    wallet: { purse },
  } = await lockWallet(tx, accountId);
  await saveWallets(tx, wallets, [{ accountId, purse: { ...purse, cashMicros: purse.cashMicros + micros } }]);
}
