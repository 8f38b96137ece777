import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import {
  addCalendar,
  calendarUnits,
  canonicalTimeZone,
  momentOf,
  wallTimeOf,
  type CalendarUnit,
} from '../../../src/domain/kernel/calendar.ts';

const at = (iso: string): number => Date.parse(iso);
const text = (ms: number): string => new Date(ms).toISOString();

describe('calendar units end at the wall time of the anchor', () => {
  test.each<[what: string, anchor: string, count: number, unit: CalendarUnit, zone: string, end: string]>([
    ['a day in UTC', '2026-03-10T12:34:56.789Z', 1, 'day', 'UTC', '2026-03-11T12:34:56.789Z'],
    ['31 January and a month', '2026-01-31T10:00:00Z', 1, 'month', 'UTC', '2026-02-28T10:00:00Z'],
    ['31 January and two months', '2026-01-31T10:00:00Z', 2, 'month', 'UTC', '2026-03-31T10:00:00Z'],
    ['31 January of a leap year', '2028-01-31T10:00:00Z', 1, 'month', 'UTC', '2028-02-29T10:00:00Z'],
    ['the leap day and a year', '2028-02-29T10:00:00Z', 12, 'month', 'UTC', '2029-02-28T10:00:00Z'],
    ['the leap day and four years', '2028-02-29T10:00:00Z', 48, 'month', 'UTC', '2032-02-29T10:00:00Z'],
    ['1900 was no leap year, 2100 is none', '2100-01-30T10:00:00Z', 1, 'month', 'UTC', '2100-02-28T10:00:00Z'],
    ['December and a month', '2026-12-31T23:59:59.999Z', 1, 'month', 'UTC', '2027-01-31T23:59:59.999Z'],
    ['120 months', '2026-08-31T00:00:00Z', 120, 'month', 'UTC', '2036-08-31T00:00:00Z'],
    // The day of the anchor is 1 February in Kiribati, 31 January in UTC.
    ['a month by the local day', '2026-01-31T20:00:00Z', 1, 'month', 'Pacific/Kiritimati', '2026-02-28T20:00:00Z'],
    // Berlin: 29 March 2026 02:00 is 03:00; 25 October 2026 03:00 is 02:00.
    ['a day of 23 hours', '2026-03-28T11:00:00Z', 1, 'day', 'Europe/Berlin', '2026-03-29T10:00:00Z'],
    ['a day of 25 hours', '2026-10-24T10:00:00Z', 1, 'day', 'Europe/Berlin', '2026-10-25T11:00:00Z'],
    ['a week over summer time', '2026-03-25T11:00:00Z', 1, 'week', 'Europe/Berlin', '2026-04-01T10:00:00Z'],
    ['a week over winter time', '2026-10-20T10:00:00Z', 1, 'week', 'Europe/Berlin', '2026-10-27T11:00:00Z'],
    ['a month over both', '2026-03-15T11:00:00Z', 12, 'month', 'Europe/Berlin', '2027-03-15T11:00:00Z'],
    ['a skipped time, an hour later', '2026-03-28T01:30:00Z', 1, 'day', 'Europe/Berlin', '2026-03-29T01:30:00Z'],
    ['no drift after a skipped time', '2026-03-28T01:30:00Z', 2, 'day', 'Europe/Berlin', '2026-03-30T00:30:00Z'],
    ['the first of a repeated time', '2026-10-24T00:30:00Z', 1, 'day', 'Europe/Berlin', '2026-10-25T00:30:00Z'],
    ['a day after a repeated time', '2026-10-25T01:30:00Z', 1, 'day', 'Europe/Berlin', '2026-10-26T01:30:00Z'],
    // New York: 8 March 2026 02:00 is 03:00; 1 November 02:00 is 01:00.
    ['skipped in New York', '2026-03-07T07:30:00Z', 1, 'day', 'America/New_York', '2026-03-08T07:30:00Z'],
    ['repeated in New York', '2026-10-31T05:30:00Z', 1, 'day', 'America/New_York', '2026-11-01T05:30:00Z'],
    // Lord Howe moves by half an hour: 4 October 2026 02:00 is 02:30; 5 April 02:00 is 01:30.
    ['skipped half an hour', '2026-10-02T15:45:00Z', 1, 'day', 'Australia/Lord_Howe', '2026-10-03T15:45:00Z'],
    ['repeated half an hour', '2026-04-03T14:45:00Z', 1, 'day', 'Australia/Lord_Howe', '2026-04-04T14:45:00Z'],
    // Sydney has summer time in January; Kolkata and Kathmandu have none.
    ['a week in Sydney', '2026-04-01T01:00:00Z', 1, 'week', 'Australia/Sydney', '2026-04-08T02:00:00Z'],
    ['a month in Kathmandu', '2026-03-15T00:00:00Z', 1, 'month', 'Asia/Kathmandu', '2026-04-15T00:00:00Z'],
    // Chatham: 2026-09-27 02:45 is 03:45.
    ['skipped in Chatham', '2026-09-25T14:15:00Z', 1, 'day', 'Pacific/Chatham', '2026-09-26T14:15:00Z'],
    // Summer time of Havana begins at midnight: 8 March 2026 00:00 is 01:00.
    ['a skipped midnight', '2026-03-07T05:00:00Z', 1, 'day', 'America/Havana', '2026-03-08T05:00:00Z'],
    // Samoa had no 30 December 2011: it moved over the date line.
    ['a skipped day', '2011-12-29T20:00:00Z', 1, 'day', 'Pacific/Apia', '2011-12-30T20:00:00Z'],
    ['the day after it', '2011-12-29T20:00:00Z', 2, 'day', 'Pacific/Apia', '2011-12-30T20:00:00Z'],
  ])('%s: %s and %d %s of %s is %5$s', (_what, anchor, count, unit, zone, end) => {
    expect(text(addCalendar(at(anchor), count, unit, zone))).toBe(text(at(end)));
  });

  test('the anchor is its own start, also in the second of a repeated hour', () => {
    const second = at('2026-10-25T01:30:00Z');
    expect(addCalendar(second, 0, 'month', 'Europe/Berlin')).toBe(second);
  });
});

const zones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Havana',
  'Australia/Lord_Howe',
  'Asia/Kathmandu',
  'Africa/Casablanca',
  'Pacific/Chatham',
  'America/St_Johns',
];
const moment = fc.integer({ min: at('2020-01-01T00:00:00Z'), max: at('2045-01-01T00:00:00Z') });
const zone = fc.constantFrom(...zones);

test('a wall time leads back to its moment, or to the first of two', () => {
  fc.assert(
    fc.property(moment, zone, (ms, timeZone) => {
      const wall = wallTimeOf(ms, timeZone);
      const back = momentOf(wall, timeZone);
      expect(back).toBeLessThanOrEqual(ms);
      expect(ms - back).toBeLessThanOrEqual(3_600_000);
      expect(wallTimeOf(back, timeZone)).toBe(wall);
    }),
  );
});

test('ends follow each other, and keep the wall time unless it was skipped', () => {
  fc.assert(
    fc.property(
      moment,
      zone,
      fc.constantFrom(...calendarUnits),
      fc.integer({ min: 1, max: 60 }),
      (ms, timeZone, unit, count) => {
        const end = addCalendar(ms, count, unit, timeZone);
        expect(end).toBeGreaterThan(addCalendar(ms, count - 1, unit, timeZone));
        const day = 86_400_000;
        const time = (wall: number): number => ((wall % day) + day) % day;
        const drift = time(wallTimeOf(end, timeZone)) - time(wallTimeOf(ms, timeZone));
        expect([0, 1_800_000, 3_600_000, 3_600_000 - day, 1_800_000 - day]).toContain(drift);
      },
    ),
  );
});

describe('a time zone has one name, whatever is sent', () => {
  test.each([
    ['eUrOpE/bErLiN', 'Europe/Berlin'],
    ['utc', 'UTC'],
    ['Etc/UTC', 'UTC'],
    ['Zulu', 'UTC'],
    ['Asia/Kolkata', 'Asia/Kolkata'],
    ['asia/calcutta', 'Asia/Kolkata'],
    ['Europe/Kyiv', 'Europe/Kyiv'],
    ['Europe/Kiev', 'Europe/Kyiv'],
    ['US/Pacific', 'America/Los_Angeles'],
    ['aMeriCa/Argentina/ComodRivadavia', 'America/Argentina/Catamarca'],
    ['etc/gmt+5', 'Etc/GMT+5'],
  ])('%s: %s', (sent, name) => expect(canonicalTimeZone(sent)).toBe(name));

  test.each(['', '+01:00', 'Mars/Olympus', 'Europe/Berlin ', 'Europe/Berl\u0131n', 'Etc/Unknown'])(
    'refuses %j',
    (sent) => expect(canonicalTimeZone(sent)).toBeNull(),
  );

  test('letter case makes no other name, and a name is its own', () => {
    const zone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'));
    fc.assert(
      fc.property(zone, fc.infiniteStream(fc.boolean()), (name, upper) => {
        const spelled = [...name].map((letter) => (upper.next().value ? letter.toUpperCase() : letter.toLowerCase()));
        const canonical = canonicalTimeZone(name);
        expect(canonicalTimeZone(spelled.join(''))).toBe(canonical);
        expect(canonicalTimeZone(canonical ?? '')).toBe(canonical);
      }),
    );
  });
});

test('bounds the formats that it keeps, however many zones are asked for', () => {
  const made = vi.spyOn(Intl, 'DateTimeFormat');
  const all = Intl.supportedValuesOf('timeZone');
  for (const zone of [...all, ...all]) wallTimeOf(0, zone);
  // A map without a bound makes each format once.
  expect(made.mock.calls.length).toBeGreaterThan(all.length);
  wallTimeOf(0, 'Africa/Abidjan');
  made.mockClear();
  wallTimeOf(1, 'Africa/Abidjan');
  expect(made).not.toHaveBeenCalled();
  made.mockRestore();
});
