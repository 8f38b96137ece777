/** Off-peak windows of a region: weekly spans of wall time, in which `tidePerHour` counts. */
import { canonicalTimeZone, wallTimeOf } from '../kernel/calendar.ts';
import { MINUTE_MS } from '../kernel/durations.ts';
import type { ChargeMode } from './catalog.ts';

export const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
export type Weekday = (typeof weekdays)[number];

/** `start` and `end` are `HH:MM`, and `end` up to `24:00`. An earlier `end` is on the next day. */
export interface OffPeakWindow {
  days: Weekday[];
  start: string;
  end: string;
}

export interface OffPeak {
  /** IANA name. The zone's rules decide about summer time: a skipped or repeated hour is too. */
  timeZone: string;
  windows: OffPeakWindow[];
}

const DAY = 24 * 60;
const WEEK = 7 * DAY;

interface Span {
  from: number;
  /** Exclusive; beyond the week for a window from Sunday to Monday. */
  to: number;
  text: string;
}

/** Minutes since midnight of `HH:MM`. */
export const minutesOf = (time: string): number => {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
};

/** Spans in minutes from Monday 00:00, by their start. */
const spansOf = ({ windows }: Pick<OffPeak, 'windows'>): Span[] =>
  windows
    .flatMap(({ days, start, end }) =>
      days.map((day): Span => {
        const midnight = weekdays.indexOf(day) * DAY;
        const [opens, closes] = [minutesOf(start), minutesOf(end)];
        return {
          from: midnight + opens,
          to: midnight + closes + (closes < opens ? DAY : 0),
          text: `${day} ${start}-${end}`,
        };
      }),
    )
    .toSorted((one, other) => one.from - other.from);

/** Returns why the windows are refused; null: they are right. */
export function faultOfOffPeak({ timeZone, windows }: OffPeak): string | null {
  if (canonicalTimeZone(timeZone) === null)
    return `field "offPeak.timeZone" is ${JSON.stringify(timeZone)}: it must be an IANA time zone, such as "Europe/Berlin" or "UTC"`;
  const empty = windows.findIndex(({ start, end }) => start === end);
  if (empty !== -1)
    return `field "offPeak.windows[${empty}]" starts and ends at ${windows[empty]?.start}: send another end, or "00:00" and "24:00" for whole days`;
  const spans = spansOf({ windows });
  const [first] = spans;
  if (first) spans.push({ ...first, from: first.from + WEEK });
  for (const [at, span] of spans.entries()) {
    const next = spans[at + 1];
    if (next && next.from < span.to)
      return `field "offPeak.windows": ${span.text} overlaps ${next.text}; join them to one window, or end one where the other starts`;
  }
  return null;
}

const WEEK_MS = WEEK * MINUTE_MS;
/** 1 January 1970 was a Thursday. */
const EPOCH_MINUTE_OF_WEEK = 3 * DAY;

/** Wall time of the zone to the minute. */
const wallMsOf = (timeZone: string, atMs: number): number =>
  Math.floor(wallTimeOf(atMs, timeZone) / MINUTE_MS) * MINUTE_MS;

const minuteOfWeek = (wallMs: number): number => (((wallMs / MINUTE_MS + EPOCH_MINUTE_OF_WEEK) % WEEK) + WEEK) % WEEK;

const isInSpan = (spans: readonly Span[], minute: number): boolean =>
  spans.some(({ from, to }) => [minute, minute + WEEK].some((at) => from <= at && at < to));

/** Whether a moment is in a window, by the wall time of the zone. */
export function isOffPeak(offPeak: OffPeak, atMs: number): boolean {
  const known = knownWindow(offPeak, atMs);
  if (known) return known.opensAtMs <= atMs;
  return isInSpan(spansOf(offPeak), minuteOfWeek(wallMsOf(offPeak.timeZone, atMs)));
}

/** An open window: the windows that touch are one. */
export interface OpenSpan {
  opensAtMs: number;
  /** Null: open for ever. */
  closesAtMs: number | null;
}

/** A window that a change to summer time skips leaves up to two weeks between two windows. */
const SEARCH_WEEKS = 4;

/** Last answers of `nextWindow`, which hold until the window opens or closes. */
const lastWindows = new WeakMap<OffPeak, { window: OpenSpan; fromMs: number; untilMs: number }>();

function knownWindow(offPeak: OffPeak, atMs: number): OpenSpan | undefined {
  const known = lastWindows.get(offPeak);
  return known && known.fromMs <= atMs && atMs < known.untilMs ? known.window : undefined;
}

/** The window that is open at a moment, or else the next one; null: there are no windows. */
export function nextWindow(offPeak: OffPeak, atMs: number): OpenSpan | null {
  const known = knownWindow(offPeak, atMs);
  if (known) return known;
  const window = findWindow(offPeak, atMs);
  if (window && window.closesAtMs !== null) {
    const untilMs = window.opensAtMs <= atMs ? window.closesAtMs : window.opensAtMs;
    lastWindows.set(offPeak, { window, fromMs: atMs, untilMs });
  }
  return window;
}

function findWindow(offPeak: OffPeak, atMs: number): OpenSpan | null {
  const spans = spansOf(offPeak);
  if (spans.length === 0) return null;
  if (spans.reduce((sum, { from, to }) => sum + to - from, 0) >= WEEK) return { opensAtMs: atMs, closesAtMs: null };
  const { timeZone } = offPeak;
  const isOpen = (at: number): boolean => isInSpan(spans, minuteOfWeek(wallMsOf(timeZone, at)));
  const edges = edgesOf(timeZone, spans, atMs);
  const later = edges.filter((edge) => edge > atMs);
  const isOpenNow = isOpen(atMs);
  const earlier = edges.filter((edge) => edge <= atMs);
  const opensAtMs = isOpenNow ? earlier.findLast((edge) => !isOpen(edge - 1)) : later.find(isOpen);
  if (opensAtMs === undefined) return isOpenNow ? { opensAtMs: atMs, closesAtMs: null } : null;
  const closesAtMs = later.find((edge) => edge > opensAtMs && !isOpen(edge));
  return { opensAtMs, closesAtMs: closesAtMs ?? null };
}

/** Times at which a window may open or close: ends of spans, and changes of the zone's offset. */
function edgesOf(timeZone: string, spans: readonly Span[], atMs: number): number[] {
  const offsetAt = (at: number): number => wallMsOf(timeZone, at) - Math.floor(at / MINUTE_MS) * MINUTE_MS;
  const firstMs = Math.floor(atMs / MINUTE_MS) * MINUTE_MS - SEARCH_WEEKS * WEEK_MS;
  const weeks = Array.from({ length: 2 * SEARCH_WEEKS + 1 }, (_, week) => firstMs + week * WEEK_MS);
  const offsets = new Set(weeks.map(offsetAt));
  const firstWallMs = wallMsOf(timeZone, firstMs);
  const mondayMs = firstWallMs - minuteOfWeek(firstWallMs) * MINUTE_MS;
  const edges = new Set<number>();
  for (const [week, weekMs] of weeks.entries()) {
    if (offsetAt(weekMs) !== offsetAt(weekMs + WEEK_MS)) edges.add(offsetChange(offsetAt, weekMs, weekMs + WEEK_MS));
    for (const minute of spans.flatMap(({ from, to }) => [from, to]))
      for (const offset of offsets) edges.add(mondayMs + week * WEEK_MS + minute * MINUTE_MS - offset);
  }
  return [...edges].toSorted((one, other) => one - other);
}

/** First minute of the offset at `toMs`. */
function offsetChange(offsetAt: (at: number) => number, fromMs: number, toMs: number): number {
  let [before, after] = [fromMs, toMs];
  while (after - before > MINUTE_MS) {
    const middle = before + Math.floor((after - before) / 2 / MINUTE_MS) * MINUTE_MS;
    if (offsetAt(middle) === offsetAt(fromMs)) before = middle;
    else after = middle;
  }
  return after;
}

/** Windows of a region that never had any. */
export const defaultOffPeak = (timeZone: string): OffPeak => ({
  timeZone: canonicalTimeZone(timeZone) ?? 'UTC',
  windows: [{ days: [...weekdays], start: '22:00', end: '08:00' }],
});

/** The last date of all: no window ever opens. */
export const NEVER_MS = 8.64e15;

export interface OffPeakWait {
  notBeforeMs: number;
  text: string;
}

const isoTime = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

/** Until when an instance of the charge mode waits; null: it may run now. */
export function offPeakWait(
  { chargeMode }: { chargeMode: ChargeMode },
  offPeak: OffPeak | null,
  nowMs: number,
): OffPeakWait | null {
  if (chargeMode !== 'tidePerHour') return null;
  const window = offPeak && nextWindow(offPeak, nowMs);
  if (!offPeak || !window)
    return { notBeforeMs: NEVER_MS, text: 'the region has no off-peak windows; an administrator can set some' };
  const { opensAtMs, closesAtMs } = window;
  if (opensAtMs <= nowMs) return null;
  const until = closesAtMs === null ? '' : ` to ${isoTime(closesAtMs)}`;
  return {
    notBeforeMs: opensAtMs,
    text: `waiting for the off-peak window from ${isoTime(opensAtMs)}${until} (windows by the time of ${offPeak.timeZone})`,
  };
}

/** Time between the announcement of a window's end and the stop. */
export const ENDING_NOTICE_MS = 10 * MINUTE_MS;
