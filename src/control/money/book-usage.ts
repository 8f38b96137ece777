/** Pure: the entries that book metered use up to a moment, and what they change. */
import { accrue, MAX_GAP_MS } from '../../domain/money/charge.ts';
import { meters } from '../../domain/money/meter.ts';
import { spend } from '../../domain/money/purse.ts';
import { oneOf } from '../../store/db/columns.ts';
import type { UsageEntry, Wallet } from '../../store/tables/ledger.ts';
import type { ChargedColumns, PeriodRow, Split } from '../../store/tables/usage-periods.ts';

export interface Booking {
  entries: UsageEntry[];
  charged: ChargedColumns[];
  wallets: Map<string, Wallet>;
  /** Periods that were not booked for too long; the span is free. */
  gaps: (Split & Pick<PeriodRow, 'regionId'>)[];
}

const isGap = ({ chargedUntilMs }: PeriodRow, untilMs: number): boolean => untilMs - chargedUntilMs > MAX_GAP_MS;

/** The accounts of the periods are in `wallets`; a period of another account is left as it is. */
export function bookUsage(
  periods: readonly { period: PeriodRow; untilMs: number }[],
  before: ReadonlyMap<string, Wallet>,
  nowMs: number,
): Booking {
  const wallets = new Map(before);
  const booking: Booking = { entries: [], charged: [], wallets, gaps: [] };
  for (const { period, untilMs } of periods) {
    const wallet = wallets.get(period.accountId);
    if (!wallet || untilMs <= period.chargedUntilMs) continue;
    const { id, regionId, chargedUntilMs: closedAtMs } = period;
    if (isGap(period, untilMs)) booking.gaps.push({ id, regionId, closedAtMs, nextAtMs: untilMs, isCharging: 1 });
    else booking.charged.push(bookPeriod(period, untilMs, wallet, nowMs, booking));
  }
  return booking;
}

/**
 * Returns the end of a period that closes now, and the beginning of the next: the time between is a
 * gap. `isKnown` is false when nobody knows whether the resource ran after its last booking.
 */
export function endOf(
  period: PeriodRow,
  { nowMs, isKnown }: { nowMs: number; isKnown: boolean },
): { closedAtMs: number; nextAtMs: number } {
  const { openedAtMs, chargedUntilMs, isCharging } = period;
  // The clock may have been set back before the period began.
  if (isCharging === 0) return { closedAtMs: Math.max(nowMs, openedAtMs), nextAtMs: nowMs };
  const nextAtMs = Math.max(nowMs, chargedUntilMs);
  return { closedAtMs: isKnown && !isGap(period, nowMs) ? nextAtMs : chargedUntilMs, nextAtMs };
}

function bookPeriod(
  period: PeriodRow,
  untilMs: number,
  wallet: Wallet,
  nowMs: number,
  { entries, wallets }: Booking,
): ChargedColumns {
  // Member by member: a copy of a row of the database takes longer than the booking.
  const accruing = {
    priceMicros: BigInt(period.priceMicros),
    quantity: period.quantity,
    unitMs: period.unitMs,
    chargedUntilMs: period.chargedUntilMs,
    carry: BigInt(period.carry),
  };
  const { pieces, chargedUntilMs, carry } = accrue(accruing, untilMs);
  const meter = oneOf(meters, period.meter);
  const purchase = { regionId: period.regionId, instanceTypeId: period.typeId, meter };
  let { purse } = wallet;
  let { chargedMicros } = period;
  for (const piece of pieces) {
    const spent = spend(purse, piece.amountMicros, purchase, nowMs);
    ({ purse } = spent);
    chargedMicros += Number(piece.amountMicros);
    const unpaid = { ledger: 'uncollected', grantId: '', amountMicros: spent.unpaidMicros };
    const from = [...spent.payments, ...(spent.unpaidMicros > 0n ? [unpaid] : [])];
    for (const { ledger, grantId, amountMicros } of from)
      entries.push({
        periodId: period.id,
        fromLedger: ledger,
        grantId,
        amountMicros: Number(amountMicros),
        hourMs: piece.hourMs,
        fromMs: piece.fromMs,
        untilMs: piece.untilMs,
      });
  }
  wallets.set(wallet.accountId, { ...wallet, purse });
  return { id: period.id, chargedUntilMs, chargedMicros, carry: Number(carry) };
}
