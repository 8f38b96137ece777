import { expect, test, vi } from 'vitest';
import { faultOfOffPeak, isOffPeak, type OffPeakWindow, type Weekday } from '../../../src/domain/off-peak.ts';

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
