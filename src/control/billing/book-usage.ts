/** Pure: the entries that book metered use up to a moment, and what they change. */
import { accrue, MAX_GAP_MS } from '../../domain/charge.ts';
import { meters } from '../../domain/meter.ts';
import { spend } from '../../domain/purse.ts';
import { oneOf } from '../../store/db/columns.ts';
import type { UsageEntry, Wallet } from '../../store/tables/ledger.ts';
import type { ChargedColumns, PeriodRow } from '../../store/tables/usage-periods.ts';

export interface Booking {
  entries: UsageEntry[];
  charged: ChargedColumns[];
  wallets: Map<string, Wallet>;
  /** Periods that were not booked for too long; the span is free. */
  gaps: { period: PeriodRow; freeMs: number }[];
}

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
    const freeMs = untilMs - period.chargedUntilMs;
    if (freeMs > MAX_GAP_MS) {
      booking.gaps.push({ period, freeMs });
      const { id, chargedMicros, carry } = period;
      booking.charged.push({ id, chargedMicros, carry, chargedUntilMs: untilMs, freeMs: period.freeMs + freeMs });
      continue;
    }
    booking.charged.push(bookPeriod(period, untilMs, wallet, nowMs, booking));
  }
  return booking;
}

export interface Beginning {
  /** After the period before, also when the clock was set back. */
  openedAtMs: number;
  chargedUntilMs: number;
}

/** `isKnown` is false when nobody knows whether the resource ran after its last booking. */
export function endOf(
  { openedAtMs, chargedUntilMs, isCharging }: PeriodRow,
  { nowMs, isKnown }: { nowMs: number; isKnown: boolean },
): { untilMs: number; closedAtMs: number; next: Beginning } {
  const bookedMs = isCharging === 1 ? chargedUntilMs : nowMs;
  const untilMs = isKnown ? Math.max(nowMs, bookedMs) : bookedMs;
  const closedAtMs = Math.max(untilMs, openedAtMs);
  const next = { openedAtMs: Math.max(nowMs, closedAtMs), chargedUntilMs: Math.max(nowMs, untilMs) };
  return { untilMs, closedAtMs, next };
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
  return { id: period.id, chargedUntilMs, chargedMicros, carry: Number(carry), freeMs: period.freeMs };
}
