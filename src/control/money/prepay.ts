/**
 * Buys, changes and refunds paid time (`docs/reference/billing.md`, *Paid ahead*), in the
 * transaction of the cause. The instance is locked, and then its account.
 */
import { toDollars, type Micros } from '../../domain/regions/catalog.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import {
  begin,
  cutToUnitsBegun,
  isOver,
  paidAheadMode,
  renew,
  startsAtMs,
  totalMicros,
  unitOf,
  unitsNotBegun,
  unitsText,
  worthMicros,
  type PaidTime,
} from '../../domain/money/paid-time.ts';
import type { CalendarUnit } from '../../domain/kernel/calendar.ts';
import { noBalance, type Shortfall } from '../../domain/money/no-balance.ts';
import { availableFor, creditKinds, spend } from '../../domain/money/purse.ts';
import { planRefund, refundTo } from '../../domain/money/refund.ts';
import { encodeFlag, oneOf } from '../../store/db/columns.ts';
import type { Db } from '../../store/store.ts';
import { amortizationOf, amortizeRest, type AmortizationChange } from '../../store/tables/amortizations.ts';
import { appendEvent } from '../../store/tables/events.ts';
import {
  entriesAbout,
  grantsById,
  insertEntry,
  lockWallet,
  plainEntry,
  saveWallets,
} from '../../store/tables/ledger.ts';
import { deletePaidTime, paidTimeOf, savePaidTime, type StoredPaidTime } from '../../store/tables/paid-times.ts';
import type { Metering } from './metering.ts';
import { purchaseOf } from './refuse-unpaid.ts';
import { timeZoneOf } from './time-zone.ts';

export type Billed = Pick<Metering, 'isBilled'>;

interface Bill {
  instance: Instance;
  amountMicros: Micros;
  reason: string;
  /** Units bought, if it is a purchase of some. */
  units?: { priceMicros: Micros; priceUnit: CalendarUnit };
  isAmortized: boolean;
  nowMs: number;
}

type Amortization = Awaited<ReturnType<typeof amortizationOf>>;

/** Amortizes nothing without `former`, the row of before the change. */
async function amortize(
  tx: Db,
  { id: subjectId, ownerId: accountId }: Pick<Instance, 'id' | 'ownerId'>,
  former: Amortization | 'none',
  paid: PaidTime,
  { addedMicros = 0n, nowMs }: { addedMicros?: Micros; nowMs: number },
): Promise<void> {
  if (former === undefined) return;
  const price = { priceMicros: Number(paid.priceMicros), priceUnit: unitOf[paid.chargeMode] };
  const [fromMs, untilMs] = [startsAtMs(paid), paid.endsAtMs];
  const span = fromMs === null || untilMs === null ? null : { fromMs, untilMs };
  const change: AmortizationChange = { addedMicros: Number(addedMicros), price, span, nowMs };
  await amortizeRest(tx, { accountId, subjectId }, former === 'none' ? undefined : former, change);
}

/** Pays the whole amount or nothing. `firstEntryId` is 0 if there was nothing to pay. */
async function pay(
  tx: Db,
  { instance, amountMicros, reason, units, isAmortized, nowMs }: Bill,
): Promise<{ firstEntryId: number } | Shortfall> {
  if (amountMicros === 0n) return { firstEntryId: 0 };
  const accountId = instance.ownerId;
  const { wallets, wallet } = await lockWallet(tx, accountId);
  const purchase = purchaseOf(instance);
  const spent = spend(wallet.purse, amountMicros, purchase, nowMs);
  if (spent.unpaidMicros > 0n)
    return { needMicros: amountMicros, availableMicros: availableFor(wallet.purse, purchase, nowMs) };
  const ids: number[] = [];
  for (const payment of spent.payments) {
    const entry = await insertEntry(tx, {
      ...plainEntry,
      accountId,
      atMs: nowMs,
      kind: 'prepayment',
      fromLedger: payment.ledger,
      toLedger: 'revenue',
      amountMicros: Number(payment.amountMicros),
      grantId: payment.grantId,
      subjectId: instance.id,
      meter: purchase.meter,
      reason,
      ...(units && { ...units, priceMicros: Number(units.priceMicros) }),
      isAmortized: encodeFlag(isAmortized),
    });
    ids.push(entry.id);
  }
  await saveWallets(tx, wallets, [{ accountId, purse: spent.purse }]);
  return { firstEntryId: Math.min(...ids) };
}

export type PurchaseCause = 'launch' | 'start' | 'renewal';

/** Buys the duration of the instance. Returns what is missing, and then has written nothing. */
export async function buyPaidTime(
  tx: Db,
  { isBilled }: Billed,
  { instance, cause, nowMs }: { instance: Instance; cause: PurchaseCause; nowMs: number },
): Promise<Shortfall | null> {
  const { id: instanceId, ownerId: accountId, spec, priceMicros } = instance;
  const chargeMode = paidAheadMode(spec.chargeMode);
  if (chargeMode === null) return null;
  const bought = { units: spec.duration, priceMicros, isPaid: isBilled };
  const total = isBilled ? totalMicros(bought) : 0n;
  const units = { priceMicros, priceUnit: unitOf[chargeMode] };
  const paid = await pay(tx, { instance, amountMicros: total, reason: cause, units, isAmortized: true, nowMs });
  if ('needMicros' in paid) return paid;
  const former = cause === 'renewal' ? await paidTimeOf(tx, instanceId) : undefined;
  const first: PaidTime = {
    chargeMode,
    ...bought,
    anchorMs: null,
    unitsBefore: 0,
    timeZone: '',
    endsAtMs: null,
    dueAtMs: null,
  };
  const next = former ? renew(former, bought, nowMs) : first;
  await savePaidTime(tx, { ...next, instanceId, accountId, firstEntryId: paid.firstEntryId, runSeq: null });
  if (isBilled) {
    const before = (await amortizationOf(tx, instanceId)) ?? 'none';
    await amortize(tx, instance, before, next, { addedMicros: total, nowMs });
  }
  const facts = { chargeMode, units: bought.units, price: toDollars(priceMicros), total: toDollars(total) };
  const data = { cause, ...facts, startsAtMs: startsAtMs(next), endsAtMs: next.endsAtMs };
  await appendEvent(tx, { accountId, atMs: nowMs, kind: 'instance.paidTimeBought', subjectId: instanceId, data });
  return null;
}

interface Beginning extends Pick<StoredPaidTime, 'runSeq'> {
  startsAtMs: number;
  nowMs: number;
}

/** The container runs: its paid time begins unless it has begun. */
export async function beginPaidTime(
  tx: Db,
  instance: Instance,
  { startsAtMs: at, runSeq, nowMs }: Beginning,
): Promise<void> {
  const { id, ownerId, spec } = instance;
  if (paidAheadMode(spec.chargeMode) === null) return;
  const paid = await paidTimeOf(tx, id);
  if (!paid || paid.anchorMs !== null) return;
  const begun = begin(paid, at, await timeZoneOf(tx, spec.regionId));
  await savePaidTime(tx, { ...paid, ...begun, runSeq });
  await amortize(tx, instance, await amortizationOf(tx, id), begun, { nowMs });
  const data = { startsAtMs: at, endsAtMs: begun.endsAtMs, timeZone: begun.timeZone };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.paidTimeBegan', subjectId: id, data });
}

/** Charges or refunds an action; `instance` is as the action leaves it. */
export async function applyToPaidTime(
  tx: Db,
  metering: Billed,
  { action, instance, nowMs }: { action: string; instance: Instance; nowMs: number },
): Promise<void> {
  const chargeMode = paidAheadMode(instance.spec.chargeMode);
  if (chargeMode === null || !['start', 'restart', 'terminate'].includes(action)) return;
  const paid = await paidTimeOf(tx, instance.id);
  if (action === 'terminate') {
    if (paid) await endPaidTime(tx, metering, { instance, paid, nowMs });
    return;
  }
  if (action === 'start' && (!paid || isOver(paid, nowMs))) {
    const missing = await buyPaidTime(tx, metering, { instance, cause: 'start', nowMs });
    const purpose = ` for ${unitsText(chargeMode, instance.spec.duration)}, because the paid time is over,`;
    if (missing) throw noBalance(missing, { what: 'start', purpose });
    return;
  }
  if (paid) await changePrice(tx, metering, { instance, paid, nowMs });
}

/** Takes back that paid time began with a run. False if it did not. */
export async function unbeginPaidTime(
  tx: Db,
  instance: Pick<Instance, 'id' | 'ownerId'>,
  { runSeq, nowMs }: { runSeq: number; nowMs: number },
): Promise<boolean> {
  const paid = await paidTimeOf(tx, instance.id);
  if (paid?.runSeq !== runSeq) return false;
  const next = { ...paid, anchorMs: null, timeZone: '', endsAtMs: null, dueAtMs: null, runSeq: null };
  await savePaidTime(tx, next);
  await amortize(tx, instance, await amortizationOf(tx, instance.id), next, { nowMs });
  return true;
}

interface OfPaidTime {
  instance: Instance;
  paid: StoredPaidTime;
  nowMs: number;
}

/** Micro-dollars to charge, or negative to refund, for the time that is left at a new price. */
export const priceDifference = (paid: PaidTime, priceMicros: Micros, nowMs: number): Micros =>
  worthMicros(paid, priceMicros, nowMs) - worthMicros(paid, paid.priceMicros, nowMs);

export const CHANGE_PURPOSE = ', the difference for the paid time that is left,';

async function changePrice(tx: Db, { isBilled }: Billed, { instance, paid, nowMs }: OfPaidTime): Promise<void> {
  const { id, ownerId, priceMicros, observed } = instance;
  if (!isBilled || !paid.isPaid || priceMicros === paid.priceMicros) return;
  // The run of before may use its grace.
  const fromMs = priceMicros < paid.priceMicros ? (observed.ending?.byMs ?? nowMs) : nowMs;
  const difference = priceDifference(paid, priceMicros, fromMs);
  const reason = 'change of type';
  const former = await amortizationOf(tx, id);
  const bill = { instance, reason, isAmortized: former !== undefined, nowMs };
  const charged = await pay(tx, { ...bill, amountMicros: difference > 0n ? difference : 0n });
  if ('needMicros' in charged)
    throw noBalance(charged, {
      what: `change to ${instance.spec.type.name}`,
      purpose: CHANGE_PURPOSE,
      instead: 'change it back',
    });
  const refunded = difference < 0n ? await refund(tx, { ...bill, paid, amountMicros: -difference }) : 0n;
  const addedMicros = difference > 0n ? difference : -refunded;
  await amortize(tx, instance, former, { ...paid, priceMicros }, { addedMicros, nowMs });
  await savePaidTime(tx, { ...paid, priceMicros, firstEntryId: paid.firstEntryId || charged.firstEntryId });
  const data = { price: toDollars(priceMicros), difference: toDollars(difference), fromMs };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.paidTimeChanged', subjectId: id, data });
}

async function endPaidTime(tx: Db, { isBilled }: Billed, { instance, paid, nowMs }: OfPaidTime): Promise<void> {
  await deletePaidTime(tx, instance.id);
  const units = unitsNotBegun(paid, nowMs);
  if (!isBilled || !paid.isPaid || units === 0) return;
  const amountMicros = totalMicros({ units, priceMicros: paid.priceMicros });
  const price = { priceMicros: paid.priceMicros, priceUnit: unitOf[paid.chargeMode] };
  const former = await amortizationOf(tx, instance.id);
  const bill = { instance, paid, amountMicros, units: price, reason: 'terminate', nowMs };
  const refunded = await refundUnits(tx, { ...bill, isAmortized: former !== undefined }, units);
  await amortize(tx, instance, former, cutToUnitsBegun(paid, nowMs), { addedMicros: -refunded, nowMs });
}

/** Takes back the price of the time since `fromMs`, in which the run had lost a GPU. */
export async function refundPaidTime(
  tx: Db,
  instance: Instance,
  { fromMs, nowMs }: { fromMs: number; nowMs: number },
): Promise<void> {
  const paid = await paidTimeOf(tx, instance.id);
  if (!paid?.isPaid) return;
  const worthAt = (atMs: number): Micros => worthMicros(paid, paid.priceMicros, atMs);
  const amountMicros = worthAt(fromMs) - worthAt(nowMs);
  await refundUnits(tx, { instance, paid, amountMicros, reason: 'GpuLost', isAmortized: false, nowMs }, 0);
}

async function refundUnits(tx: Db, bill: OfPaidTime & Bill, units: number): Promise<Micros> {
  const amountMicros = await refund(tx, bill);
  if (amountMicros === 0n) return 0n;
  const { instance, reason, nowMs: atMs } = bill;
  const { id: subjectId, ownerId: accountId } = instance;
  const data = { units, amount: toDollars(amountMicros), reason };
  await appendEvent(tx, { accountId, atMs, kind: 'instance.paidTimeRefunded', subjectId, data });
  return amountMicros;
}

/** Refunds at most what was paid for this paid time. Returns the amount. */
async function refund(
  tx: Db,
  { instance, paid, amountMicros, reason, units, isAmortized, nowMs }: OfPaidTime & Bill,
): Promise<Micros> {
  if (paid.firstEntryId === 0) return 0n;
  const rows = await entriesAbout(tx, instance.id, paid.firstEntryId);
  const takenBack = (id: number): number =>
    rows.reduce((sum, row) => (row.reversesId === id ? sum + row.amountMicros : sum), 0);
  const left = rows
    .filter(({ kind }) => kind === 'prepayment')
    .map(({ id, fromLedger, grantId, amountMicros: given }) => ({
      entryId: id,
      ledger: oneOf(creditKinds, fromLedger),
      grantId,
      amountMicros: BigInt(given - takenBack(id)),
    }));
  const refunds = planRefund(left, amountMicros);
  if (refunds.length === 0) return 0n;
  const accountId = instance.ownerId;
  const { wallets, wallet } = await lockWallet(tx, accountId);
  const grants = await grantsById(
    tx,
    refunds.flatMap(({ grantId }) => (grantId === '' ? [] : [grantId])),
  );
  for (const refund of refunds)
    await insertEntry(tx, {
      ...plainEntry,
      accountId,
      atMs: nowMs,
      kind: 'refund',
      fromLedger: 'revenue',
      toLedger: refund.ledger,
      amountMicros: Number(refund.amountMicros),
      grantId: refund.grantId,
      subjectId: instance.id,
      meter: 'compute',
      reason,
      ...(units && { ...units, priceMicros: Number(units.priceMicros) }),
      isAmortized: encodeFlag(isAmortized),
      reversesId: refund.entryId,
    });
  await saveWallets(tx, wallets, [{ accountId, purse: refundTo(wallet.purse, grants, refunds) }]);
  return refunds.reduce((sum, one) => sum + one.amountMicros, 0n);
}
