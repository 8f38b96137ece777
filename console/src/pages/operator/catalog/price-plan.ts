/** New prices of a type and the time from which they count. Pure. */
import { chargeModes, type ChargeMode } from '../../../../../src/contract/statuses.ts';

export type Prices = Record<ChargeMode, number>;
/** What is in the fields; empty: not set. */
export type TypedPrices = Record<ChargeMode, number | string>;

/** The price of an hour is what people compare: it comes first. */
export const modesByUse: readonly ChargeMode[] = ['perHour', ...chargeModes.filter((mode) => mode !== 'perHour')];

const MICROS = 1_000_000;

/** All prices by a percentage, rounded to a micro-dollar. */
export const scaledBy = (prices: Prices, percent: number): Prices => {
  const scaled = { ...prices };
  for (const mode of chargeModes) scaled[mode] = Math.round(prices[mode] * (1 + percent / 100) * MICROS) / MICROS;
  return scaled;
};

/** Null while a field is empty or no amount. */
export function pricesOf(typed: TypedPrices): Prices | null {
  const prices: Partial<Prices> = {};
  for (const mode of chargeModes) {
    const amount = typed[mode] === '' ? Number.NaN : Number(typed[mode]);
    if (!Number.isFinite(amount) || amount < 0) return null;
    prices[mode] = amount;
  }
  const { tidePerHour, perHour, perDay, perWeek, perMonth } = prices;
  if (
    tidePerHour === undefined ||
    perHour === undefined ||
    perDay === undefined ||
    perWeek === undefined ||
    perMonth === undefined
  )
    return null;
  return { tidePerHour, perHour, perDay, perWeek, perMonth };
}

export const differs = (one: Prices, other: Prices): boolean => chargeModes.some((mode) => one[mode] !== other[mode]);

export const startModes = ['tomorrow', 'now', 'later'] as const;
export type StartMode = (typeof startModes)[number];

/** Midnight that ends the day of this moment, by the clock of this browser. */
export function tomorrowOf(nowMs: number): number {
  const date = new Date(nowMs);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() + 1).getTime();
}

/** `undefined`: at once. Null: the time is missing or over. */
export function startOf(mode: StartMode, later: string, nowMs: number): number | undefined | null {
  if (mode === 'now') return undefined;
  if (mode === 'tomorrow') return tomorrowOf(nowMs);
  const atMs = new Date(later).getTime();
  return Number.isFinite(atMs) && atMs > nowMs ? atMs : null;
}
