/**
 * Spans of hours, days, weeks and months in a time zone. Charges are booked by hours of UTC, so a
 * span begins at a full hour of UTC: in zones half an hour off, up to 45 minutes early.
 */
import { HOUR_MS } from '../kernel/durations.ts';
import { momentOf, wallTimeOf } from '../kernel/calendar.ts';

export const bucketUnits = ['hour', 'day', 'week', 'month'] as const;
export type BucketUnit = (typeof bucketUnits)[number];

export interface TimeSpan {
  fromMs: number;
  untilMs: number;
}

const toHour = (ms: number): number => Math.floor(ms / HOUR_MS) * HOUR_MS;

/** Wall time at which the bucket begins that contains `wallMs`, moved by a number of buckets. */
function wallStart(wallMs: number, by: BucketUnit, moved: number): number {
  const date = new Date(wallMs);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (by === 'month') return Date.UTC(year, month + moved, 1);
  if (by === 'day') return Date.UTC(year, month, day + moved);
  const sinceMonday = (date.getUTCDay() + 6) % 7;
  return Date.UTC(year, month, day - sinceMonday + 7 * moved);
}

/** Buckets that touch `[fromMs, untilMs)`, whole; at most `limit` and one more. */
export function bucketsOf(
  { fromMs, untilMs }: TimeSpan,
  { by, timeZone, limit }: { by: BucketUnit; timeZone: string; limit: number },
): TimeSpan[] {
  const wallMs = wallTimeOf(fromMs, timeZone);
  const edge = (index: number): number =>
    by === 'hour' ? toHour(fromMs) + index * HOUR_MS : toHour(momentOf(wallStart(wallMs, by, index), timeZone));
  const buckets: TimeSpan[] = [];
  for (let index = 0; buckets.length <= limit; index += 1) {
    const bucket = { fromMs: edge(index), untilMs: edge(index + 1) };
    if (bucket.fromMs >= untilMs) break;
    if (bucket.untilMs > fromMs) buckets.push(bucket);
  }
  return buckets;
}

export const monthPattern = /^(20\d\d)-(0[1-9]|1[0-2])$/;

/** `month` is `2026-11`. */
export function monthSpan(month: string, timeZone: string): TimeSpan {
  const [year = 0, number = 1] = month.split('-').map(Number);
  const edge = (moved: number): number => toHour(momentOf(Date.UTC(year, number - 1 + moved, 1), timeZone));
  return { fromMs: edge(0), untilMs: edge(1) };
}

/** The month that contains a moment. */
export function monthOf(atMs: number, timeZone: string): { month: string } & TimeSpan {
  const month = new Date(wallTimeOf(atMs, timeZone)).toISOString().slice(0, 7);
  return { month, ...monthSpan(month, timeZone) };
}

/** Milliseconds that two spans share. */
export const overlapMs = (one: TimeSpan, other: TimeSpan): number =>
  Math.max(0, Math.min(one.untilMs, other.untilMs) - Math.max(one.fromMs, other.fromMs));
