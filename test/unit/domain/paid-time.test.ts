import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  begin,
  isOver,
  nearestChoice,
  renew,
  startsAtMs,
  totalMicros,
  unitsNotBegun,
  worthMicros,
  type PaidTime,
} from '../../../src/domain/money/paid-time.ts';
import { paidAheadModes } from '../../../src/domain/regions/catalog.ts';
import { planRefund, refundTo } from '../../../src/domain/money/refund.ts';

const at = (iso: string): number => Date.parse(iso);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const bought = (over: Partial<PaidTime> = {}): PaidTime => ({
  chargeMode: 'perMonth',
  units: 1,
  priceMicros: 40_000_000n,
  isPaid: true,
  anchorMs: null,
  unitsBefore: 0,
  timeZone: '',
  endsAtMs: null,
  dueAtMs: null,
  ...over,
});
const ends = ({ endsAtMs }: PaidTime): string => new Date(endsAtMs ?? 0).toISOString();

describe('the end', () => {
  test('comes back to the 31st after renewals of a month', () => {
    const first = begin(bought(), at('2026-01-31T10:00:00Z'), 'UTC');
    expect(ends(first)).toBe('2026-02-28T10:00:00.000Z');
    const second = renew(first, first, first.endsAtMs ?? 0);
    expect(ends(second)).toBe('2026-03-31T10:00:00.000Z');
    expect(startsAtMs(second)).toBe(first.endsAtMs);
    expect(ends(renew(second, second, second.endsAtMs ?? 0))).toBe('2026-04-30T10:00:00.000Z');
  });

  test('keeps its wall time over the change to summer time', () => {
    const paid = begin(bought({ chargeMode: 'perWeek', units: 3 }), at('2026-03-20T11:00:00Z'), 'Europe/Berlin');
    expect(ends(paid)).toBe('2026-04-10T10:00:00.000Z');
  });

  test('is warned of a day before, and of days an hour before', () => {
    const month = begin(bought(), at('2026-05-01T10:00:00Z'), 'UTC');
    expect((month.endsAtMs ?? 0) - (month.dueAtMs ?? 0)).toBe(DAY);
    const day = begin(bought({ chargeMode: 'perDay' }), at('2026-05-01T10:00:00Z'), 'UTC');
    expect((day.endsAtMs ?? 0) - (day.dueAtMs ?? 0)).toBe(HOUR);
  });

  test('follows the former end within an hour; a later renewal begins at once', () => {
    const day = begin(bought({ chargeMode: 'perDay' }), at('2026-05-01T10:00:00Z'), 'UTC');
    expect(ends(renew(day, day, at('2026-05-02T11:00:00Z')))).toBe('2026-05-03T10:00:00.000Z');
    expect(ends(renew(day, day, at('2026-05-02T11:00:00.001Z')))).toBe('2026-05-03T11:00:00.001Z');
  });

  test('counts as over from its first millisecond', () => {
    const day = begin(bought({ chargeMode: 'perDay' }), at('2026-05-01T10:00:00Z'), 'UTC');
    expect([isOver(day, (day.endsAtMs ?? 0) - 1), isOver(day, day.endsAtMs ?? 0)]).toEqual([false, true]);
    expect(isOver(bought(), Number.MAX_SAFE_INTEGER)).toBe(false);
  });
});

test('a unit has begun from its first millisecond, the first one at the start', () => {
  const paid = begin(bought({ chargeMode: 'perDay', units: 3 }), at('2026-05-01T10:00:00Z'), 'UTC');
  const left = (iso: string): number => unitsNotBegun(paid, at(iso));
  expect(unitsNotBegun(bought({ units: 3 }), at('2030-01-01T00:00:00Z'))).toBe(3);
  expect([left('2026-05-01T10:00:00Z'), left('2026-05-02T09:59:59.999Z'), left('2026-05-02T10:00:00Z')]).toEqual([
    2, 2, 1,
  ]);
  expect([left('2026-05-03T10:00:00Z'), left('2027-01-01T00:00:00Z')]).toEqual([0, 0]);
  // After a clock that was set back.
  expect(left('2026-04-01T10:00:00Z')).toBe(2);
});

test('the time that is left is worth its share of each unit, rounded down', () => {
  const paid = begin(bought({ chargeMode: 'perDay', units: 3 }), at('2026-03-27T11:00:00Z'), 'Europe/Berlin');
  const price = 1_000_000n;
  expect(worthMicros(bought({ units: 3 }), price, 0)).toBe(3_000_000n);
  expect(worthMicros(paid, price, at('2026-03-27T11:00:00Z'))).toBe(3_000_000n);
  expect(worthMicros(paid, price, at('2026-03-28T03:00:00Z'))).toBe(2_333_333n);
  // The second day has 23 hours.
  expect(worthMicros(paid, price, at('2026-03-28T22:00:00Z'))).toBe(1_521_739n);
  expect(worthMicros(paid, price, at('2026-03-30T10:00:00Z'))).toBe(0n);
  expect(worthMicros(paid, price, at('2027-01-01T00:00:00Z'))).toBe(0n);
});

test('a day that the zone skips has no worth, and ends at once', () => {
  const paid = begin(bought({ chargeMode: 'perDay', units: 2 }), at('2011-12-29T20:00:00Z'), 'Pacific/Apia');
  expect(worthMicros(paid, 1_000_000n, at('2011-12-29T20:00:00Z'))).toBe(1_000_000n);
  expect(unitsNotBegun(paid, at('2011-12-30T20:00:00Z'))).toBe(0);
});

test('payments that are not used up always cover refunds and changes of type', () => {
  const zone = fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe');
  const price = fc.bigInt({ min: 0n, max: 10n ** 12n });
  fc.assert(
    fc.property(
      fc.constantFrom(...paidAheadModes),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: at('2024-01-01T00:00:00Z'), max: at('2030-01-01T00:00:00Z') }),
      zone,
      price,
      fc.array(fc.record({ afterMs: fc.integer({ min: 0, max: 40 * DAY }), price }), { maxLength: 4 }),
      (chargeMode, units, startMs, timeZone, priceMicros, changes) => {
        const paid = begin(bought({ chargeMode, units, priceMicros }), startMs, timeZone);
        let held = totalMicros(paid);
        let nowMs = startMs;
        for (const change of changes) {
          nowMs += change.afterMs;
          held += worthMicros(paid, change.price, nowMs) - worthMicros(paid, paid.priceMicros, nowMs);
          paid.priceMicros = change.price;
          expect(held >= worthMicros(paid, paid.priceMicros, nowMs)).toBe(true);
        }
        const refund = totalMicros({ units: unitsNotBegun(paid, nowMs), priceMicros: paid.priceMicros });
        expect(held >= refund && refund >= 0n).toBe(true);
      },
    ),
  );
});

describe('the nearest choice', () => {
  const prices = {
    tidePerHour: 50_000n,
    perHour: 100_000n,
    perDay: 2_000_000n,
    perWeek: 12_000_000n,
    perMonth: 40_000_000n,
  };
  test.each([
    ['fewer months', 'perMonth', 3, 90, { chargeMode: 'perMonth', duration: 2 }],
    ['weeks of a month', 'perMonth', 1, 39.99, { chargeMode: 'perWeek', duration: 3 }],
    ['days', 'perMonth', 1, 11.99, { chargeMode: 'perDay', duration: 5 }],
    ['no week for days', 'perDay', 7, 12, { chargeMode: 'perDay', duration: 6 }],
    ['an hour', 'perWeek', 1, 1.99, { chargeMode: 'perHour', duration: 1 }],
    ['nothing', 'perWeek', 1, 0.09, null],
    ['at most the longest duration', 'perMonth', 120, 39, { chargeMode: 'perWeek', duration: 3 }],
  ] as const)('is %s', (_what, chargeMode, duration, dollars, choice) => {
    expect(nearestChoice(prices, { chargeMode, duration }, BigInt(Math.round(dollars * 1e6)))).toEqual(choice);
  });

  test('never exceeds the longest duration, nor the time that was wanted', () => {
    const free = { ...prices, perDay: 0n };
    expect(nearestChoice(free, { chargeMode: 'perMonth', duration: 120 }, 0n)).toEqual({
      chargeMode: 'perDay',
      duration: 120,
    });
    expect(nearestChoice(free, { chargeMode: 'perWeek', duration: 2 }, 0n)).toEqual({
      chargeMode: 'perDay',
      duration: 14,
    });
  });
});

describe('refunds', () => {
  const paid = [
    { entryId: 1, ledger: 'voucher', grantId: 'v', amountMicros: 5n },
    { entryId: 2, ledger: 'credit', grantId: 'c', amountMicros: 3n },
    { entryId: 3, ledger: 'cash', grantId: '', amountMicros: 2n },
    { entryId: 4, ledger: 'cash', grantId: '', amountMicros: 4n },
  ] as const;
  test('go to cash first, then credits, then vouchers, and never beyond what was paid', () => {
    const plan = (amount: bigint) =>
      planRefund(paid, amount).map(({ entryId, amountMicros }) => [entryId, amountMicros]);
    expect(plan(0n)).toEqual([]);
    expect(plan(5n)).toEqual([
      [4, 4n],
      [3, 1n],
    ]);
    expect(plan(10n)).toEqual([
      [4, 4n],
      [3, 2n],
      [2, 3n],
      [1, 1n],
    ]);
    expect(planRefund(paid, 100n).reduce((sum, { amountMicros }) => sum + amountMicros, 0n)).toBe(14n);
  });

  test('refill a grant of which nothing was left, even an expired one', () => {
    const grant = { id: 'v', kind: 'voucher', leftMicros: 0n, expiresAtMs: 1, scope: {}, createdAtMs: 0 } as const;
    const open = { ...grant, id: 'c', kind: 'credit', leftMicros: 7n } as const;
    const purse = { cashMicros: -3n, floorMicros: -5n, grants: [open] };
    const after = refundTo(purse, [grant, { ...open, leftMicros: 0n }], planRefund(paid, 14n));
    expect(after.cashMicros).toBe(3n);
    expect(after.grants.map(({ id, leftMicros }) => [id, leftMicros])).toEqual([
      ['c', 10n],
      ['v', 5n],
    ]);
  });
});
