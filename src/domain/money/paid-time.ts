/** Paid time of an instance: `docs/reference/billing.md`, *Paid ahead*. */
import { HOUR_MS, DAY_MS } from '../kernel/durations.ts';
import { addCalendar, type CalendarUnit } from '../kernel/calendar.ts';
import { MAX_GAP_MS } from './charge.ts';
import { paidAheadModes, type ChargeMode, type Micros, type PaidAheadMode } from '../regions/catalog.ts';

export const unitOf: Readonly<Record<PaidAheadMode, CalendarUnit>> = {
  perDay: 'day',
  perWeek: 'week',
  perMonth: 'month',
};

export const paidAheadMode = (mode: ChargeMode): PaidAheadMode | null =>
  paidAheadModes.find((one) => one === mode) ?? null;

export const unitsText = (mode: PaidAheadMode, count: number): string =>
  `${count} ${unitOf[mode]}${count === 1 ? '' : 's'}`;

/** The last time bought. Units end at the wall time of the anchor, counted from there. */
export interface PaidTime {
  chargeMode: PaidAheadMode;
  units: number;
  /** Price of a unit. */
  priceMicros: Micros;
  /** False if it was bought while billing was off: nothing of it is charged or refunded. */
  isPaid: boolean;
  /** Null until the container runs, with `endsAtMs` and `dueAtMs`. */
  anchorMs: number | null;
  /** Units between the anchor and the start. */
  unitsBefore: number;
  timeZone: string;
  endsAtMs: number | null;
  /** Time of the warning, then of the end; null once the end has been handled. */
  dueAtMs: number | null;
}

export const totalMicros = ({ units, priceMicros }: Pick<PaidTime, 'units' | 'priceMicros'>): Micros =>
  BigInt(units) * priceMicros;

const warnAtMs = ({ chargeMode }: PaidTime, endsAtMs: number): number =>
  endsAtMs - (chargeMode === 'perDay' ? HOUR_MS : DAY_MS);

type Begun = PaidTime & { anchorMs: number };
const isBegun = (paid: PaidTime): paid is Begun => paid.anchorMs !== null;

/** Start of unit `index`, which is the end of the unit before. */
const unitStartMs = ({ anchorMs, unitsBefore, chargeMode, timeZone }: Begun, index: number): number =>
  addCalendar(anchorMs, unitsBefore + index, unitOf[chargeMode], timeZone);

export const startsAtMs = (paid: PaidTime): number | null => (isBegun(paid) ? unitStartMs(paid, 0) : null);

function withEnd(paid: Begun): PaidTime {
  const endsAtMs = unitStartMs(paid, paid.units);
  return { ...paid, endsAtMs, dueAtMs: warnAtMs(paid, endsAtMs) };
}

/** The container runs for the first time since it was bought. */
export const begin = (paid: PaidTime, nowMs: number, timeZone: string): PaidTime =>
  withEnd({ ...paid, anchorMs: nowMs, unitsBefore: 0, timeZone });

/** Follows the former time; or begins now, when Berth was away at its end for long. */
export function renew(paid: PaidTime, bought: Pick<PaidTime, 'units' | 'priceMicros' | 'isPaid'>, nowMs: number) {
  const { anchorMs, endsAtMs } = paid;
  if (anchorMs === null || endsAtMs === null || nowMs - endsAtMs > MAX_GAP_MS)
    return begin({ ...paid, ...bought }, nowMs, paid.timeZone);
  return withEnd({ ...paid, ...bought, anchorMs, unitsBefore: paid.unitsBefore + paid.units });
}

export const isOver = ({ endsAtMs }: PaidTime, nowMs: number): boolean => endsAtMs !== null && endsAtMs <= nowMs;

export function unitsNotBegun(paid: PaidTime, nowMs: number): number {
  if (!isBegun(paid)) return paid.units;
  let begun = 1;
  while (begun < paid.units && unitStartMs(paid, begun) <= nowMs) begun += 1;
  return paid.units - begun;
}

export function cutToUnitsBegun(paid: PaidTime, nowMs: number): PaidTime {
  const units = paid.units - unitsNotBegun(paid, nowMs);
  return isBegun(paid) ? withEnd({ ...paid, units }) : { ...paid, units };
}

/** Worth of the time that is left, at a price for a unit. */
export function worthMicros(paid: PaidTime, priceMicros: Micros, nowMs: number): Micros {
  if (!isBegun(paid)) return BigInt(paid.units) * priceMicros;
  let worth = 0n;
  for (let index = 0; index < paid.units; index += 1) {
    const startMs = unitStartMs(paid, index);
    const endMs = unitStartMs(paid, index + 1);
    const leftMs = endMs - Math.max(startMs, nowMs);
    if (leftMs > 0) worth += (priceMicros * BigInt(leftMs)) / BigInt(endMs - startMs);
  }
  return worth;
}

/** Longest duration of a request. */
export const MAX_UNITS = 120;

export interface Choice {
  chargeMode: ChargeMode;
  duration: number;
}

const daysOf: Readonly<Record<PaidAheadMode, number>> = { perDay: 1, perWeek: 7, perMonth: 30 };

/** Longest time that the money buys: units of the mode, or else of the next shorter mode. */
export function nearestChoice(
  prices: Readonly<Record<ChargeMode, Micros>>,
  wanted: { chargeMode: PaidAheadMode; duration: number },
  availableMicros: Micros,
): Choice | null {
  const longest = paidAheadModes.indexOf(wanted.chargeMode);
  for (const chargeMode of paidAheadModes.slice(0, longest + 1).toReversed()) {
    const price = prices[chargeMode];
    const wantedUnits = Math.floor((wanted.duration * daysOf[wanted.chargeMode]) / daysOf[chargeMode]);
    const units = Math.min(wantedUnits, price === 0n ? wantedUnits : Number(availableMicros / price));
    if (units > 0) return { chargeMode, duration: Math.min(units, MAX_UNITS) };
  }
  return prices.perHour <= availableMicros ? { chargeMode: 'perHour', duration: 1 } : null;
}
