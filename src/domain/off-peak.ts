/** Off-peak windows of a region: weekly spans of wall time, in which `tidePerHour` counts. */

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

const minutesOf = (time: string): number => {
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
  if (!isTimeZone(timeZone))
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

/** Names only: offsets such as `+01:00` have no summer time. */
export function isTimeZone(timeZone: string): boolean {
  try {
    const { timeZone: known } = new Intl.DateTimeFormat('en-US', { timeZone }).resolvedOptions();
    return /^[A-Za-z]/.test(known);
  } catch {
    return false;
  }
}

/** Formats by time zone of a region: making one takes longer than the rest of a catalog answer. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const format =
    formats.get(timeZone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone,
      weekday: 'short',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    });
  formats.set(timeZone, format);
  return format;
}

/** Whether a moment is in a window, by the wall time of the zone. */
export function isOffPeak(offPeak: OffPeak, atMs: number): boolean {
  const format = formatOf(offPeak.timeZone);
  const parts = Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const day = weekdays.findIndex((name) => name === parts['weekday']?.toLowerCase());
  const minute = day * DAY + minutesOf(`${parts['hour']}:${parts['minute']}`);
  return spansOf(offPeak).some(({ from, to }) => [minute, minute + WEEK].some((at) => from <= at && at < to));
}
