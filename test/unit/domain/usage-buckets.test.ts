import { expect, test } from 'vitest';
import { bucketsOf, monthSpan, overlapMs, type BucketUnit } from '../../../src/domain/money/usage-buckets.ts';

const HOUR = 3_600_000;
const at = (text: string): number => Date.parse(text);
const starts = (from: string, until: string, by: BucketUnit, timeZone: string): string[] =>
  bucketsOf({ fromMs: at(from), untilMs: at(until) }, { by, timeZone, limit: 100 }).map(({ fromMs }) =>
    new Date(fromMs).toISOString().slice(0, 16),
  );

test('months begin at midnight of the zone, and join', () => {
  for (const timeZone of [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Asia/Kolkata',
    'Pacific/Chatham',
    'America/Sao_Paulo',
  ]) {
    let end: number | null = null;
    for (let number = 1; number <= 12; number += 1) {
      const { fromMs, untilMs } = monthSpan(`2026-${String(number).padStart(2, '0')}`, timeZone);
      expect(fromMs % HOUR).toBe(0);
      if (end !== null) expect(fromMs).toBe(end);
      end = untilMs;
    }
    expect(monthSpan('2027-01', timeZone).fromMs).toBe(end);
  }
  expect(monthSpan('2026-11', 'Europe/Berlin')).toEqual({
    fromMs: at('2026-10-31T23:00Z'),
    untilMs: at('2026-11-30T23:00Z'),
  });
  // 05:30 ahead: the month begins at the full hour before 18:30.
  expect(monthSpan('2026-11', 'Asia/Kolkata').fromMs).toBe(at('2026-10-31T18:00Z'));
});

test('days have 23, 24 or 25 hours when the clocks change', () => {
  const hours = (day: string): number => {
    const [bucket] = bucketsOf(
      { fromMs: at(day), untilMs: at(day) + 1 },
      { by: 'day', timeZone: 'Europe/Berlin', limit: 5 },
    );
    return bucket ? (bucket.untilMs - bucket.fromMs) / HOUR : 0;
  };
  expect([hours('2026-03-29T12:00Z'), hours('2026-06-01T12:00Z'), hours('2026-10-25T12:00Z')]).toEqual([23, 24, 25]);
});

test('weeks begin on Monday, and hours are those of UTC', () => {
  expect(starts('2026-11-23T12:00Z', '2026-12-01T00:00Z', 'week', 'UTC')).toEqual([
    '2026-11-23T00:00',
    '2026-11-30T00:00',
  ]);
  expect(starts('2026-11-22T23:30Z', '2026-11-23T00:30Z', 'week', 'Europe/Berlin')).toEqual(['2026-11-22T23:00']);
  expect(starts('2026-11-23T12:20Z', '2026-11-23T14:00Z', 'hour', 'Asia/Kolkata')).toEqual([
    '2026-11-23T12:00',
    '2026-11-23T13:00',
  ]);
});

test('a midnight that the clocks skip is the moment of the change', () => {
  // Beirut changed from 00:00 to 01:00 on 2022-03-27.
  expect(starts('2022-03-27T10:00Z', '2022-03-27T11:00Z', 'day', 'Asia/Beirut')).toEqual(['2022-03-26T22:00']);
});

test('a range of more buckets than the limit gives one more than it', () => {
  const span = { fromMs: 0, untilMs: 1_000 * HOUR };
  expect(bucketsOf(span, { by: 'hour', timeZone: 'UTC', limit: 10 })).toHaveLength(11);
});

test('the overlap of spans is never negative', () => {
  expect(overlapMs({ fromMs: 0, untilMs: 10 }, { fromMs: 5, untilMs: 20 })).toBe(5);
  expect(overlapMs({ fromMs: 0, untilMs: 10 }, { fromMs: 10, untilMs: 20 })).toBe(0);
  expect(overlapMs({ fromMs: 0, untilMs: 10 }, { fromMs: 12, untilMs: 20 })).toBe(0);
});
