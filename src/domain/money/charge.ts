/**
 * Charges of a period: the exact cost, booked in pieces of at most an hour. A piece is rounded down
 * to a micro-dollar; the carry, in `price × quantity × ms` below one unit, goes to the next.
 */
import type { Micros } from '../regions/catalog.ts';
import { MINUTE_MS, HOUR_MS } from '../kernel/durations.ts';
import type { Priced } from './meter.ts';

/** A longer span without a booking is free: nobody knows what happened in it. */
export const MAX_GAP_MS = HOUR_MS;

export interface Accruing extends Priced {
  chargedUntilMs: number;
  carry: bigint;
}

export interface Piece {
  /** Start of the hour (UTC) that contains the piece. */
  hourMs: number;
  fromMs: number;
  untilMs: number;
  amountMicros: Micros;
}

export interface Accrual {
  pieces: Piece[];
  chargedUntilMs: number;
  carry: bigint;
}

export const lastFullMinute = (atMs: number): number => Math.floor(atMs / MINUTE_MS) * MINUTE_MS;

/** Time backwards charges nothing. Pieces of 0 micro-dollars are left out. */
export function accrue(period: Accruing, untilMs: number): Accrual {
  const pieces: Piece[] = [];
  const unit = BigInt(period.unitMs);
  let { chargedUntilMs, carry } = period;
  while (chargedUntilMs < untilMs) {
    const hourMs = Math.floor(chargedUntilMs / HOUR_MS) * HOUR_MS;
    const endMs = Math.min(untilMs, hourMs + HOUR_MS);
    const exact = period.priceMicros * BigInt(period.quantity) * BigInt(endMs - chargedUntilMs) + carry;
    const amountMicros = exact / unit;
    if (amountMicros > 0n) pieces.push({ hourMs, fromMs: chargedUntilMs, untilMs: endMs, amountMicros });
    carry = exact % unit;
    chargedUntilMs = endMs;
  }
  return { pieces, chargedUntilMs, carry };
}
