/**
 * Wall times of IANA zones, by the zone data of `Intl`. A wall time is written as the milliseconds
 * that it would be in UTC.
 */
import { DAY_MS } from './durations.ts';

export const calendarUnits = ['day', 'week', 'month'] as const;
export type CalendarUnit = (typeof calendarUnits)[number];

/** Formats by zone: making one takes longer than all else here. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const number = 'numeric';
  const format =
    formats.get(timeZone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'iso8601',
      hourCycle: 'h23',
      year: number,
      month: number,
      day: number,
      hour: number,
      minute: number,
      second: number,
    });
  formats.set(timeZone, format);
  return format;
}

export function wallTimeOf(atMs: number, timeZone: string): number {
  const wholeMs = Math.floor(atMs / 1000) * 1000;
  const parts = formatOf(timeZone).formatToParts(wholeMs);
  const of = (name: Intl.DateTimeFormatPartTypes): number => Number(parts.find(({ type }) => type === name)?.value);
  const wall = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
  return wall + (atMs - wholeMs);
}

/** Returns the first moment of a repeated wall time; a skipped one is later by what is skipped. */
export function momentOf(wallMs: number, timeZone: string): number {
  const offsets = [wallMs - DAY_MS, wallMs + DAY_MS].map((atMs) => wallTimeOf(atMs, timeZone) - atMs);
  const moments = offsets.map((offset) => wallMs - offset);
  const exact = moments.filter((atMs) => wallTimeOf(atMs, timeZone) === wallMs);
  return exact.length > 0 ? Math.min(...exact) : Math.max(...moments);
}

const monthsLater = (wallMs: number, count: number): number => {
  const date = new Date(wallMs);
  const month = date.getUTCMonth() + count;
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), month + 1, 0)).getUTCDate();
  const midnightMs = Date.UTC(date.getUTCFullYear(), month, Math.min(date.getUTCDate(), lastDay));
  return midnightMs + (wallMs - Math.floor(wallMs / DAY_MS) * DAY_MS);
};

/**
 * Moment `count` calendar units after the anchor, at its wall time. Counts from one anchor, so that
 * the 31st comes back after a shorter month.
 */
export function addCalendar(anchorMs: number, count: number, unit: CalendarUnit, timeZone: string): number {
  if (count === 0) return anchorMs;
  const wallMs = wallTimeOf(anchorMs, timeZone);
  if (unit === 'month') return momentOf(monthsLater(wallMs, count), timeZone);
  return momentOf(wallMs + count * (unit === 'week' ? 7 : 1) * DAY_MS, timeZone);
}
