import { expect, test } from 'vitest';
import { canonicalJson } from '../../../src/domain/kernel/canonical-json.ts';
import {
  cheapestStart,
  lastsHours,
  paidAheadMicros,
  perDayMicros,
  perHourMicros,
  runMicros,
  type Offer,
} from '../../../src/domain/money/offer.ts';

const offer = (chargeMode: Offer['chargeMode'], priceMicros: bigint, duration = 1): Offer => ({
  chargeMode,
  duration,
  priceMicros,
});

test('tells the price of an hour and a day of each charge mode, rounded down', () => {
  const prices = (['perHour', 'tidePerHour', 'perDay', 'perWeek', 'perMonth'] as const).map((mode) => {
    const one = offer(mode, 1_000_007n);
    return [perHourMicros(one), perDayMicros(one)];
  });
  expect(prices).toEqual([
    [1_000_007n, 24_000_168n],
    [1_000_007n, 24_000_168n],
    [41_666n, 1_000_007n],
    [5_952n, 142_858n],
    [1_388n, 33_333n],
  ]);
});

test('pays nothing ahead by the hour, and price times duration otherwise', () => {
  expect(paidAheadMicros(offer('perHour', 5n))).toBe(0n);
  expect(paidAheadMicros(offer('tidePerHour', 5n))).toBe(0n);
  expect(paidAheadMicros(offer('perWeek', 5n, 3))).toBe(15n);
});

test('tells the cost of a run, which paid time does not change', () => {
  expect(runMicros(offer('perHour', 1_000_000n), 5_400_000)).toBe(1_500_000n);
  expect(runMicros(offer('perHour', 1n), 3_599_999)).toBe(0n);
  expect(runMicros(offer('perDay', 7n, 2), 5_400_000)).toBe(14n);
});

test('the cheapest start is off-peak only where that is cheaper', () => {
  const prices = { perHour: 5n, tidePerHour: 3n, perDay: 1n, perWeek: 1n, perMonth: 1n };
  const window = { opensAtMs: 900, closesAtMs: null };
  expect(cheapestStart(prices, window, 100)).toEqual({ chargeMode: 'tidePerHour', priceMicros: 3n, atMs: 900 });
  expect(cheapestStart(prices, window, 1_000)).toMatchObject({ chargeMode: 'tidePerHour', atMs: 1_000 });
  const now = { chargeMode: 'perHour', priceMicros: 5n, atMs: 100 };
  expect(cheapestStart(prices, null, 100)).toEqual(now);
  expect(cheapestStart({ ...prices, tidePerHour: 5n }, window, 100)).toEqual(now);
});

test('tells how long money lasts, to hundredths of an hour', () => {
  expect(lastsHours(12_023_999)).toBe(3.33);
  expect(lastsHours(0)).toBe(0);
  expect(lastsHours(Infinity)).toBeNull();
});

test('canonical JSON is equal for equal content, whatever the order of members', () => {
  expect(canonicalJson({ b: [1, { d: 1, c: undefined }], a: 'x' })).toBe(canonicalJson({ a: 'x', b: [1, { d: 1 }] }));
  expect(canonicalJson([1, 2])).not.toBe(canonicalJson([2, 1]));
});
