/**
 * Payments that a provider reports: each is credited once, however often and in whichever order its
 * events come. Money that cannot be credited, and refunds that the account cannot pay, notify the
 * administrators.
 */
import { toDollars } from '../../domain/regions/catalog.ts';
import { MAX_HELD_MICROS, spendableCash } from '../../domain/money/purse.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { insertEntry, lockWallet, plainEntry, reversalsOf, saveWallets } from '../../store/tables/ledger.ts';
import {
  claimPayment,
  creditedPayment,
  raiseRefund,
  refundOf,
  saveTaken,
  setPaymentEntry,
  type PaymentRow,
} from '../../store/tables/payment-rows.ts';
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
      amountMicros: number;
      currency: string;
    }
  | { kind: 'refunded'; provider: string; intentId: string; totalMicros: number };

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
      await store.write((tx) =>
        event.kind === 'paid' ? takePayment(tx, event, time.now()) : takeRefund(tx, event, time.now()),
      );
      return event.kind === 'paid' ? event.accountId : null;
    },
  };
}

type Paid = Extract<PaymentEvent, { kind: 'paid' }>;
type Refunded = Extract<PaymentEvent, { kind: 'refunded' }>;

async function takePayment(tx: Db, { kind: _kind, paymentId, ...paid }: Paid, nowMs: number): Promise<void> {
  const payment: PaymentRow = { ...paid, id: paymentId, entryId: null, atMs: nowMs };
  if (paid.amountMicros === 0) return;
  // A refund that comes at the same time waits for this row.
  if (paid.intentId !== '') await raiseRefund(tx, { ...paid, totalMicros: 0 });
  if (!(await claimPayment(tx, payment))) return;
  const { accountId, intentId, provider, amountMicros } = paid;
  const why = await whyNotCredited(tx, paid);
  const amount = toDollars(amountMicros);
  if (why !== null) {
    const data = { provider, paymentId, intentId, accountId, amount, currency: paid.currency, reason: why };
    const event = { atMs: nowMs, kind: 'billing.paymentUnassigned', subjectId: paymentId, data };
    return notifyAdministrators(tx, event);
  }
  const data = { provider, paymentId, intentId, amount };
  await appendEvent(tx, { accountId, atMs: nowMs, kind: 'billing.paymentReceived', subjectId: accountId, data });
  await moveCash(tx, accountId, BigInt(amountMicros));
  const moved = { kind: 'deposit', fromLedger: 'deposits', toLedger: 'cash', amountMicros };
  const reason = `${provider} payment ${intentId || paymentId}`;
  const entry = await insertEntry(tx, { ...plainEntry, ...moved, accountId, atMs: nowMs, reason });
  await setPaymentEntry(tx, paymentId, entry.id);
  const refund = intentId === '' ? undefined : await refundOf(tx, paid);
  if (refund && refund.askedMicros > 0)
    await takeBack(tx, { ...payment, entryId: entry.id }, refund.askedMicros, nowMs);
}

async function whyNotCredited(
  tx: Db,
  { accountId, currency, amountMicros }: Omit<Paid, 'kind' | 'paymentId'>,
): Promise<string | null> {
  if (currency !== CURRENCY) return `the currency is ${currency.toUpperCase()}, and accounts are in USD`;
  const account = accountId === '' ? undefined : await accountById(tx, accountId);
  if (!account) return 'client_reference_id names no account';
  const held = BigInt(account.balanceMicros + account.voucherMicros + account.creditMicros);
  return held + BigInt(amountMicros) > MAX_HELD_MICROS ? 'the account would hold more than it may' : null;
}

/** `totalMicros` is the sum of all refunds of the payment so far. */
async function takeRefund(tx: Db, refunded: Refunded, nowMs: number): Promise<void> {
  const moreMicros = await raiseRefund(tx, refunded);
  const payment = moreMicros > 0 ? await creditedPayment(tx, refunded) : undefined;
  if (payment) await takeBack(tx, payment, moreMicros, nowMs);
}

async function takeBack(tx: Db, payment: PaymentRow, askedMicros: number, nowMs: number): Promise<void> {
  const { accountId, provider, intentId, id: paymentId, entryId } = payment;
  const account = await accountById(tx, accountId);
  const atMs = nowMs;
  const missing = (micros: number, reason: string): Promise<void> => {
    const data = { provider, paymentId, intentId, accountId, amount: toDollars(micros), reason };
    return notifyAdministrators(tx, { atMs, kind: 'billing.refundUncovered', subjectId: paymentId, data });
  };
  if (!account || entryId === null) return missing(askedMicros, 'the account is deleted');
  const data = { provider, paymentId, intentId, amount: toDollars(askedMicros) };
  await appendEvent(tx, { accountId, atMs, kind: 'billing.paymentRefunded', subjectId: accountId, data });
  const before = await reversalsOf(tx, { accountId, id: entryId });
  const unreversed = payment.amountMicros - before.reduce((sum, { amountMicros }) => sum + amountMicros, 0);
  const { wallet } = await lockWallet(tx, accountId);
  const spendable = Number(spendableCash(wallet.purse));
  const takenMicros = Math.max(0, Math.min(askedMicros, unreversed, spendable));
  if (takenMicros > 0) {
    await moveCash(tx, accountId, -BigInt(takenMicros));
    const moved = { kind: 'reversal', fromLedger: 'cash', toLedger: 'deposits', amountMicros: takenMicros };
    const reason = `${provider} refund of ${intentId}`;
    await insertEntry(tx, { ...plainEntry, ...moved, accountId, atMs, reason, reversesId: entryId });
    await saveTaken(tx, payment, takenMicros);
  }
  if (takenMicros < askedMicros)
    await missing(askedMicros - takenMicros, 'the account has spent the money, or it was taken back');
}

async function moveCash(tx: Db, accountId: string, micros: bigint): Promise<void> {
  const {
    wallets,
    wallet: { purse },
  } = await lockWallet(tx, accountId);
  await saveWallets(tx, wallets, [{ accountId, purse: { ...purse, cashMicros: purse.cashMicros + micros } }]);
}
