/** Costs that a quote tells before a launch (`docs/reference/billing.md`). */
import type { ChargeMode, Micros } from '../regions/catalog.ts';
import { HOUR_MS } from '../kernel/durations.ts';
import { isHourly } from './meter.ts';
import type { OpenSpan } from '../regions/off-peak.ts';

/** Validity of a quote. */
export const QUOTE_MS = 300_000;

/** Hours of a unit; a month counts as 30 days. */
const unitHours: Record<ChargeMode, bigint> = {
  tidePerHour: 1n,
  perHour: 1n,
  perDay: 24n,
  perWeek: 168n,
  perMonth: 720n,
};

export const unitOf: Record<ChargeMode, 'hour' | 'day' | 'week' | 'month'> = {
  tidePerHour: 'hour',
  perHour: 'hour',
  perDay: 'day',
  perWeek: 'week',
  perMonth: 'month',
};

export interface Offer {
  chargeMode: ChargeMode;
  duration: number;
  /** Price of one unit. */
  priceMicros: Micros;
}

/** Price of an hour, rounded down. */
export const perHourMicros = ({ chargeMode, priceMicros }: Omit<Offer, 'duration'>): Micros =>
  priceMicros / unitHours[chargeMode];

/** Price of 24 hours, rounded down. */
export const perDayMicros = ({ chargeMode, priceMicros }: Omit<Offer, 'duration'>): Micros =>
  (priceMicros * 24n) / unitHours[chargeMode];

/** Paid at the launch; 0 by the hour. */
export const paidAheadMicros = ({ chargeMode, duration, priceMicros }: Offer): Micros =>
  isHourly(chargeMode) ? 0n : priceMicros * BigInt(duration);

/** Cost of a run of `ms`, rounded down; of paid time nothing more than what was paid. */
export const runMicros = (offer: Offer, ms: number): Micros =>
  isHourly(offer.chargeMode) ? (offer.priceMicros * BigInt(ms)) / BigInt(HOUR_MS) : paidAheadMicros(offer);

/** Hours, rounded down to hundredths; null: for ever. */
export const lastsHours = (lastsMs: number): number | null =>
  lastsMs === Infinity ? null : Math.floor((lastsMs * 100) / HOUR_MS) / 100;

export interface Start {
  chargeMode: ChargeMode;
  priceMicros: Micros;
  atMs: number;
}

/** When an instance of the mode may run: the next off-peak window, or now. */
export const startMs = (chargeMode: ChargeMode, window: OpenSpan | null, nowMs: number): number =>
  chargeMode === 'tidePerHour' && window !== null ? Math.max(window.opensAtMs, nowMs) : nowMs;

/** The cheapest hour of a type: now, or in the next off-peak window. */
export function cheapestStart(
  prices: Readonly<Record<ChargeMode, Micros>>,
  window: OpenSpan | null,
  nowMs: number,
): Start {
  const chargeMode = window !== null && prices.tidePerHour < prices.perHour ? 'tidePerHour' : 'perHour';
  return { chargeMode, priceMicros: prices[chargeMode], atMs: startMs(chargeMode, window, nowMs) };
}
