import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import {
  defaultOffPeak,
  faultOfOffPeak,
  isOffPeak,
  nextWindow,
  weekdays,
  type OffPeakWindow,
  type Weekday,
} from '../../../src/domain/regions/off-peak.ts';
import { atLevel } from '../../fixtures/level.ts';

const nights: OffPeakWindow = { days: ['mon', 'tue', 'wed', 'thu', 'fri'], start: '22:00', end: '06:00' };
const weekend: OffPeakWindow = { days: ['sat', 'sun'], start: '06:00', end: '22:00' };
const berlin = (...windows: OffPeakWindow[]) => ({ timeZone: 'Europe/Berlin', windows });
const of = (day: Weekday, start: string, end: string): OffPeakWindow => ({ days: [day], start, end });

test('accepts windows that touch, over midnight and over the end of the week', () => {
  expect(faultOfOffPeak(berlin(nights, weekend))).toBeNull();
  expect(faultOfOffPeak(berlin(of('sun', '22:00', '06:00'), of('mon', '06:00', '08:00')))).toBeNull();
  expect(faultOfOffPeak(berlin(of('mon', '00:00', '24:00'), of('tue', '00:00', '24:00')))).toBeNull();
});

test.each([
  ['one day', [of('mon', '08:00', '12:00'), of('mon', '11:59', '13:00')], /mon 08:00-12:00 overlaps mon 11:59-13:00/],
  ['after midnight', [of('tue', '05:59', '07:00'), nights], /mon 22:00-06:00 overlaps tue 05:59-07:00/],
  ['over the end of the week', [of('sun', '22:00', '06:00'), of('mon', '05:00', '07:00')], /overlaps mon 05:00-07:00/],
  ['twice the same', [weekend, weekend], /sat 06:00-22:00 overlaps sat 06:00-22:00/],
  ['empty', [of('mon', '08:00', '08:00')], /windows\[0\]" starts and ends at 08:00/],
])('refuses windows: %s', (_, windows, text) => expect(faultOfOffPeak(berlin(...windows))).toMatch(text));

test.each(['Europe/Nowhere', '+01:00', '', 'Berlin'])('refuses the time zone %j', (timeZone) => {
  expect(faultOfOffPeak({ timeZone, windows: [nights] })).toMatch(/must be an IANA time zone/);
});

test.each([
  ['2026-07-06T19:59:59Z', false], // Monday 21:59:59 in Berlin
  ['2026-07-06T20:00:00Z', true],
  ['2026-07-07T03:59:59Z', true], // Tuesday 05:59:59
  ['2026-07-07T04:00:00Z', false],
  ['2026-07-06T03:00:00Z', false], // Monday 05:00: Sunday has no night
  ['2026-07-11T03:00:00Z', true], // Saturday 05:00: Friday's night
])('knows by the wall time whether %s is off-peak: %s', (at, isOpen) => {
  expect(isOffPeak(berlin(nights), Date.parse(at))).toBe(isOpen);
});

test('follows summer time: an hour that is skipped or repeated is skipped or repeated in the window', () => {
  const early = berlin({ days: ['sun'], start: '01:00', end: '04:00' });
  const hours = (fromText: string): number => {
    const from = Date.parse(fromText);
    return (
      Array.from({ length: 24 * 60 }, (_, minute) => from + minute * 60_000).filter((at) => isOffPeak(early, at))
        .length / 60
    );
  };
  expect(hours('2026-03-22T00:00:00+01:00')).toBe(3);
  expect(hours('2026-03-29T00:00:00+01:00')).toBe(2);
  expect(hours('2026-10-25T00:00:00+02:00')).toBe(4);
});

test('covers a window from Sunday to Monday', () => {
  const sunday = { timeZone: 'UTC', windows: [of('sun', '22:00', '06:00')] };
  expect(isOffPeak(sunday, Date.parse('2026-07-05T22:00:00Z'))).toBe(true);
  expect(isOffPeak(sunday, Date.parse('2026-07-06T05:59:00Z'))).toBe(true);
  expect(isOffPeak(sunday, Date.parse('2026-07-06T06:00:00Z'))).toBe(false);
});

test('makes one format of a time zone for all answers', () => {
  const answers = (): boolean[] =>
    ['Asia/Tokyo', 'America/Lima'].map((timeZone) =>
      isOffPeak({ timeZone, windows: [of('sun', '12:00', '24:00')] }, Date.parse('2026-07-05T12:00:00Z')),
    );
  expect(answers()).toEqual([true, false]);
  const made = vi.spyOn(Intl, 'DateTimeFormat');
  expect(answers()).toEqual([true, false]);
  expect(made).not.toHaveBeenCalled();
  made.mockRestore();
});

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const everyNight = (timeZone: string) => ({
  timeZone,
  windows: [{ days: [...weekdays], start: '22:00', end: '08:00' }],
});
const spanOf = (timeZone: string, at: string, windows = everyNight(timeZone).windows): [string, string] | null => {
  const span = nextWindow({ timeZone, windows }, Date.parse(at));
  return span && [new Date(span.opensAtMs).toISOString(), new Date(span.closesAtMs ?? NaN).toISOString()];
};

test.each([
  // Zone, the day before, hours of its night: spring, autumn, and a night without a change.
  ['Europe/Berlin', '2026-03-28T12:00Z', 9],
  ['Europe/Berlin', '2026-10-24T12:00Z', 11],
  ['Europe/Berlin', '2026-07-01T12:00Z', 10],
  ['America/New_York', '2026-03-07T18:00Z', 9],
  ['America/New_York', '2026-10-31T18:00Z', 11],
  ['Australia/Sydney', '2026-10-03T02:00Z', 9],
  ['Australia/Sydney', '2026-04-04T02:00Z', 11],
  ['Australia/Lord_Howe', '2026-10-03T02:00Z', 9.5],
  ['Australia/Lord_Howe', '2026-04-04T02:00Z', 10.5],
  ['America/Santiago', '2026-09-05T18:00Z', 9],
  ['America/Santiago', '2026-04-04T18:00Z', 11],
  ['Asia/Kolkata', '2026-03-28T06:00Z', 10],
])('counts the hours of a night by the clock on the wall: %s, %s', (timeZone, at, hours) => {
  const span = nextWindow(everyNight(timeZone), Date.parse(at));
  expect(((span?.closesAtMs ?? 0) - (span?.opensAtMs ?? 0)) / HOUR_MS).toBe(hours);
  // The same window while it is open, to its last millisecond, and the next one afterwards.
  for (const inside of [span?.opensAtMs ?? 0, (span?.closesAtMs ?? 0) - 1])
    expect(nextWindow(everyNight(timeZone), inside)).toEqual(span);
  expect(nextWindow(everyNight(timeZone), span?.closesAtMs ?? 0)?.opensAtMs).toBeGreaterThan(span?.closesAtMs ?? 0);
});

test('finds the window that is open, or the next, over midnight and over the end of the week', () => {
  const sunday = [of('sun', '22:00', '06:00')];
  const span = ['2026-07-05T22:00:00.000Z', '2026-07-06T06:00:00.000Z'];
  for (const at of ['2026-06-29T06:00:00Z', '2026-07-05T21:59:59.999Z', '2026-07-05T22:00:00Z', '2026-07-06T05:59:59Z'])
    expect(spanOf('UTC', at, sunday)).toEqual(span);
  expect(spanOf('UTC', '2026-07-06T06:00:00Z', sunday)?.[0]).toBe('2026-07-12T22:00:00.000Z');
});

test('takes windows that touch for one, and never closes windows of the whole week', () => {
  const touching = [of('sun', '22:00', '06:00'), of('mon', '06:00', '24:00'), of('tue', '00:00', '01:00')];
  expect(spanOf('UTC', '2026-07-06T07:00Z', touching)).toEqual([
    '2026-07-05T22:00:00.000Z',
    '2026-07-07T01:00:00.000Z',
  ]);
  const allWeek = { timeZone: 'UTC', windows: [{ days: [...weekdays], start: '00:00', end: '24:00' }] };
  expect(nextWindow(allWeek, 5_000)).toEqual({ opensAtMs: 5_000, closesAtMs: null });
  const inTwo = {
    timeZone: 'Europe/Berlin',
    windows: [...everyNight('').windows, { days: [...weekdays], start: '08:00', end: '22:00' }],
  };
  expect(nextWindow(inTwo, 5_000)?.closesAtMs).toBeNull();
});

test('finds nothing without windows, and passes over a window that summer time skips', () => {
  expect(nextWindow({ timeZone: 'UTC', windows: [] }, 5_000)).toBeNull();
  const skipped = [of('sun', '02:15', '02:45')];
  expect(spanOf('Europe/Berlin', '2026-03-28T12:00Z', skipped)?.[0]).toBe('2026-04-05T00:15:00.000Z');
  // The autumn night has it twice.
  expect(spanOf('Europe/Berlin', '2026-10-24T12:00Z', skipped)?.[0]).toBe('2026-10-25T00:15:00.000Z');
  expect(spanOf('Europe/Berlin', '2026-10-25T00:45Z', skipped)?.[0]).toBe('2026-10-25T01:15:00.000Z');
});

test('answers for the same windows at any time in any order as it does for new ones', () => {
  const windows = [of('sun', '02:15', '02:45'), of('sun', '22:00', '06:00'), of('mon', '08:00', '08:15')];
  const fresh = () => ({ timeZone: 'Europe/Berlin', windows });
  const asked = fresh();
  const fromMs = Date.parse('2026-10-24T18:00Z');
  const quarters = Array.from({ length: 96 }, (_, at) => fromMs + at * 15 * MINUTE_MS);
  // Forwards by quarters, backwards by hours, and to both sides of each edge.
  const edges = new Set(quarters.flatMap((at) => Object.values(nextWindow(fresh(), at) ?? {})));
  const moments = [...quarters, ...quarters.toReversed().filter((_, at) => at % 4 === 0), ...edges, fromMs];
  for (const at of moments.flatMap((one) => [one, one - 1])) {
    expect(nextWindow(asked, at)).toEqual(nextWindow(fresh(), at));
    expect(isOffPeak(asked, at)).toBe(isOffPeak(fresh(), at));
  }
});

test('gives the default in the zone of the host, or in UTC where the host has none', () => {
  expect(defaultOffPeak('Asia/Tokyo')).toEqual(everyNight('Asia/Tokyo'));
  expect(defaultOffPeak('Etc/Unknown').timeZone).toBe('UTC');
});

/** Minutes of 24 days in the middle of which the zone changes, with the wall time by Intl alone. */
function minutesOf(timeZone: string, change: string) {
  const fromMs = Date.parse(change) - 12 * 24 * HOUR_MS;
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  const walls = Array.from({ length: 24 * 24 * 60 }, (_, minute) => {
    const [day = '', time = ''] = format
      .format(fromMs + minute * MINUTE_MS)
      .toLowerCase()
      .replace(',', '')
      .split(' ');
    return { day: weekdays.findIndex((name) => name === day), time };
  });
  return { timeZone, fromMs, walls };
}

test('agrees with a walk through all minutes, for any windows', () => {
  const changes = [
    ['Europe/Berlin', '2026-03-29T01:00Z'],
    ['America/New_York', '2026-11-01T06:00Z'],
    ['Australia/Lord_Howe', '2026-04-04T15:00Z'],
    ['America/Santiago', '2026-09-06T04:00Z'],
  ] as const;
  const tables = changes.map(([zone, change]) => minutesOf(zone, change));
  const time = fc
    .integer({ min: 0, max: 95 })
    .map(
      (quarter) => `${String(Math.floor(quarter / 4)).padStart(2, '0')}:${String((quarter % 4) * 15).padStart(2, '0')}`,
    );
  const window = fc.record({
    days: fc.uniqueArray(fc.constantFrom(...weekdays), { minLength: 1 }),
    start: time,
    end: time,
  });
  const isIn = (windows: OffPeakWindow[], { day, time: at }: { day: number; time: string }): boolean =>
    windows.some(({ days, start, end }) => {
      const has = (one: number): boolean => days.includes(weekdays[(one + 7) % 7] ?? 'mon');
      return end > start
        ? has(day) && start <= at && at < end
        : (has(day) && start <= at) || (has(day - 1) && at < end);
    });
  fc.assert(
    fc.property(
      fc.nat(tables.length - 1),
      fc.array(window, { minLength: 1, maxLength: 3 }),
      fc.nat(4 * 24 * 60),
      (which, windows, later) => {
        const { timeZone, fromMs, walls } = tables[which] ?? minutesOf('UTC', '2026-01-01');
        fc.pre(faultOfOffPeak({ timeZone, windows }) === null);
        const open = walls.map((wall) => isIn(windows, wall));
        const now = 10 * 24 * 60 + later;
        const opens = open[now] ? open.lastIndexOf(false, now) + 1 : open.indexOf(true, now);
        const closes = open.indexOf(false, opens);
        // The walk ends after twelve days.
        fc.pre(opens > 0 && closes > 0);
        expect(nextWindow({ timeZone, windows }, fromMs + now * MINUTE_MS)).toEqual({
          opensAtMs: fromMs + opens * MINUTE_MS,
          closesAtMs: fromMs + closes * MINUTE_MS,
        });
      },
    ),
    { numRuns: atLevel({ short: 100, long: 3_000 }) },
  );
});
