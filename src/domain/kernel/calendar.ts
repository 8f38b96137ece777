/**
 * Wall times of IANA zones, by the zone data of `Intl`. A wall time is written as the milliseconds
 * that it would be in UTC.
 */
import { DAY_MS } from './durations.ts';

export const calendarUnits = ['day', 'week', 'month'] as const;
export type CalendarUnit = (typeof calendarUnits)[number];

/** Names of today in the IANA database, by the older ones that `Intl` answers with. */
const renamed: ReadonlyMap<string, string> = new Map([
  ['Africa/Asmera', 'Africa/Asmara'],
  ['America/Buenos_Aires', 'America/Argentina/Buenos_Aires'],
  ['America/Catamarca', 'America/Argentina/Catamarca'],
  ['America/Coral_Harbour', 'America/Atikokan'],
  ['America/Cordoba', 'America/Argentina/Cordoba'],
  ['America/Godthab', 'America/Nuuk'],
  ['America/Indianapolis', 'America/Indiana/Indianapolis'],
  ['America/Jujuy', 'America/Argentina/Jujuy'],
  ['America/Louisville', 'America/Kentucky/Louisville'],
  ['America/Mendoza', 'America/Argentina/Mendoza'],
  ['Asia/Calcutta', 'Asia/Kolkata'],
  ['Asia/Katmandu', 'Asia/Kathmandu'],
  ['Asia/Rangoon', 'Asia/Yangon'],
  ['Asia/Saigon', 'Asia/Ho_Chi_Minh'],
  ['Atlantic/Faeroe', 'Atlantic/Faroe'],
  ['Europe/Kiev', 'Europe/Kyiv'],
  ['Pacific/Enderbury', 'Pacific/Kanton'],
  ['Pacific/Ponape', 'Pacific/Pohnpei'],
  ['Pacific/Truk', 'Pacific/Chuuk'],
]);

/**
 * The one name of a zone, whatever the letter case or alias: what a caller sends becomes the key of
 * a cache and the text of a row. Null for what is no zone: offsets such as `+01:00` have no summer
 * time.
 */
export function canonicalTimeZone(timeZone: string): string | null {
  try {
    const known = new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions().timeZone;
    return /^[A-Za-z]/.test(known) ? (renamed.get(known) ?? known) : null;
  } catch {
    return null;
  }
}

/** Formats by zone: making one takes longer than all else here. Each has 30 KB. */
const formats = new Map<string, Intl.DateTimeFormat>();
const MAX_FORMATS = 100;

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known) return known;
  const number = 'numeric';
  const format = new Intl.DateTimeFormat('en-US', {
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
  if (formats.size >= MAX_FORMATS) formats.clear();
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
