/** Paid time by the page on billing: its units, what is refunded, what a change of type costs. */
import { civilOf, dayNumber, instantOf, lengthOfMonth, wallOf, type Zone } from './zones.ts';

export type Unit = 'day' | 'week' | 'month';

/** Returns the end of the unit with this number, counted from the begin of the paid time. */
export function endOfUnit(zone: Zone, begin: number, unit: Unit, number: number): number {
  const wall = wallOf(zone, begin);
  if (unit !== 'month') return instantOf(zone, { day: wall.day + number * (unit === 'week' ? 7 : 1), ms: wall.ms });
  const first = civilOf(wall.day);
  const months = first.month - 1 + number;
  const year = first.year + Math.floor(months / 12);
  const month = (months % 12) + 1;
  const day = Math.min(first.day, lengthOfMonth(year, month));
  return instantOf(zone, { day: dayNumber({ year, month, day }), ms: wall.ms });
}

export interface PaidSpan {
  zone: Zone;
  unit: Unit;
  /** Begin of the paid time; undefined before the instance is `Running` for the first time. */
  begin: number | undefined;
  /** Units bought, renewals included. */
  units: number;
  /** Micro-dollars per unit. */
  price: number;
}

interface UnitSpan {
  from: number;
  until: number;
}

function unitsOf({ zone, unit, units }: PaidSpan, begin: number): UnitSpan[] {
  const edge = (number: number) => (number === 0 ? begin : endOfUnit(zone, begin, unit, number));
  return Array.from({ length: units }, (_, at) => ({ from: edge(at), until: edge(at + 1) }));
}

/** Returns the end of the paid time. */
export function paidUntil(span: PaidSpan & { begin: number }): number {
  return endOfUnit(span.zone, span.begin, span.unit, span.units);
}

/** Refund of a terminate at `at`. */
export function refundAt(span: PaidSpan, at: number): number {
  const { begin } = span;
  if (begin === undefined) return span.price * span.units;
  return span.price * unitsOf(span, begin).filter(({ from }) => from > at).length;
}

/** Worth at `at` of what is left. */
export function worthAt(span: PaidSpan, at: number): bigint {
  const { begin } = span;
  const price = BigInt(span.price);
  if (begin === undefined) return price * BigInt(span.units);
  let worth = 0n;
  for (const { from, until } of unitsOf(span, begin)) {
    const left = Math.max(0, until - Math.max(at, from));
    worth += (price * BigInt(left)) / BigInt(until - from);
  }
  return worth;
}
