/** Off-peak windows of a day, as the launch page draws them. */
import { expect, test } from 'vitest';
import { arcOf, clockTimeOf, spansOfDay } from '../../../console/src/pages/launch/off-peak-ring.ts';

const nights = { windows: [{ days: ['sun' as const, 'mon' as const], start: '22:00', end: '08:00' }] };

test('the clock is that of the region, over both midnights and the weekend', () => {
  const sunday = Date.UTC(2026, 10, 22, 23, 30);
  expect(clockTimeOf(sunday, 'UTC')).toEqual({ day: 'sun', dayBefore: 'sat', minutes: 23 * 60 + 30 });
  expect(clockTimeOf(sunday, 'Europe/Berlin')).toEqual({ day: 'mon', dayBefore: 'sun', minutes: 30 });
  expect(clockTimeOf(sunday, 'America/New_York')).toEqual({ day: 'sun', dayBefore: 'sat', minutes: 18 * 60 + 30 });
});

test('a window past midnight is drawn on both of its days', () => {
  expect(spansOfDay(nights, { day: 'sun', dayBefore: 'sat' })).toEqual([[1320, 1440]]);
  expect(spansOfDay(nights, { day: 'mon', dayBefore: 'sun' })).toEqual([
    [1320, 1440],
    [0, 480],
  ]);
  expect(spansOfDay(nights, { day: 'tue', dayBefore: 'mon' })).toEqual([[0, 480]]);
});

test('a whole day is two halves, which an arc can draw', () => {
  expect(arcOf([0, 1440], { centre: 10, radius: 5 }).match(/M/g)).toHaveLength(2);
  expect(arcOf([0, 360], { centre: 10, radius: 5 })).toBe('M10.00 5.00A5 5 0 0 1 15.00 10.00');
});
