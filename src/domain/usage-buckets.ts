/**
 * Spans of hours, days, weeks and months in a time zone. Charges are booked by hours of UTC, so a
 * span begins at a full hour of UTC: in zones half an hour off, up to 45 minutes early.
 */
import { HOUR_MS } from './meter.ts';

export const bucketUnits = ['hour', 'day', 'week', 'month'] as const;
export type BucketUnit = (typeof bucketUnits)[number];

export interface TimeSpan {
  fromMs: number;
  untilMs: number;
}

const DAY_MS = 24 * HOUR_MS;

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const format =
    formats.get(timeZone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone,
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
      hourCycle: 'h23',
    });
  formats.set(timeZone, format);
  return format;
}

/** Wall time of the zone, as if it were UTC. */
function wallOf(timeZone: string, atMs: number): number {
  const parts = Object.fromEntries(
    formatOf(timeZone)
      .formatToParts(atMs)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** First moment of a wall time; one that the clocks skip is the moment of the change. */
function momentOf(timeZone: string, wallMs: number): number {
  const offsets = [wallMs - DAY_MS, wallMs + DAY_MS].map((near) => wallOf(timeZone, near) - near);
  const moments = offsets.map((offset) => wallMs - offset);
  const exact = moments.filter((moment) => wallOf(timeZone, moment) === wallMs);
  return exact.length > 0 ? Math.min(...exact) : wallMs - (offsets[0] ?? 0);
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
  const wallMs = wallOf(timeZone, fromMs);
  const edge = (index: number): number =>
    by === 'hour' ? toHour(fromMs) + index * HOUR_MS : toHour(momentOf(timeZone, wallStart(wallMs, by, index)));
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
  const edge = (moved: number): number => toHour(momentOf(timeZone, Date.UTC(year, number - 1 + moved, 1)));
  return { fromMs: edge(0), untilMs: edge(1) };
}

/** The month that contains a moment. */
export function monthOf(atMs: number, timeZone: string): { month: string } & TimeSpan {
  const month = new Date(wallOf(timeZone, atMs)).toISOString().slice(0, 7);
  return { month, ...monthSpan(month, timeZone) };
}

/** Milliseconds that two spans share. */
export const overlapMs = (one: TimeSpan, other: TimeSpan): number =>
  Math.max(0, Math.min(one.untilMs, other.untilMs) - Math.max(one.fromMs, other.fromMs));
