/** Paid time of random lives in six zones, against the calculator of `test/oracle`. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { begin, renew, unitsNotBegun, worthMicros, type PaidTime } from '../../../src/domain/money/paid-time.ts';
import { paidAheadModes } from '../../../src/domain/regions/catalog.ts';
import { atLevel } from '../../fixtures/level.ts';
import { paidUntil, refundAt, worthAt } from '../../oracle/paid-ahead.ts';
import { changesOf, DAY, HOUR, zones } from '../../oracle/zones.ts';

const unitOf = { perDay: 'day', perWeek: 'week', perMonth: 'month' } as const;
const MAX_LIFE_MS = 12 * 31 * DAY;

const life = fc.record({
  timeZone: fc.constantFrom(...zones),
  year: fc.integer({ min: 2025, max: 2034 }),
  near: fc.nat(4),
  ms: fc.nat({ max: 3 * DAY }),
  chargeMode: fc.constantFrom(...paidAheadModes),
  units: fc.integer({ min: 1, max: 3 }),
  renewals: fc.nat(3),
  priceMicros: fc.bigInt({ min: 0n, max: 10n ** 12n }),
  newMicros: fc.bigInt({ min: 0n, max: 10n ** 12n }),
  afterMs: fc.nat({ max: MAX_LIFE_MS }),
  atEdge: fc.boolean(),
});

test('ends, refunds and worth are those of the calculator', () => {
  fc.assert(
    fc.property(life, ({ timeZone, year, near, ms, chargeMode, units, renewals, priceMicros, newMicros, ...of }) => {
      const change = near < 2 ? changesOf(timeZone, year)[near] : undefined;
      const endOfMonth = [Date.UTC(year, 0, 29), Date.UTC(year, 1, 27), Date.UTC(year, 7, 30)][near - 2];
      const start = (change ?? endOfMonth ?? Date.UTC(year, 5, 1)) - DAY + ms;
      const first: PaidTime = {
        chargeMode,
        units,
        priceMicros,
        isPaid: true,
        anchorMs: null,
        unitsBefore: 0,
        timeZone: '',
        endsAtMs: null,
        dueAtMs: null,
      };
      let paid = begin(first, start, timeZone);
      const span = { zone: timeZone, unit: unitOf[chargeMode], begin: start, price: Number(priceMicros) };
      for (let bought = 1; bought <= renewals; bought += 1) {
        expect(paid.endsAtMs).toBe(paidUntil({ ...span, units: units * bought }));
        paid = renew(paid, paid, (paid.endsAtMs ?? 0) + (of.afterMs % HOUR));
      }
      const whole = { ...span, units: units * (renewals + 1) };
      expect(paid.endsAtMs).toBe(paidUntil(whole));
      const lastStart = renewals === 0 ? start : paidUntil({ ...span, units: units * renewals });
      const edge = paidUntil({ ...span, units: units * renewals + (of.afterMs % units) + 1 });
      const moments = of.atEdge ? [edge - 1, edge] : [lastStart + (of.afterMs % MAX_LIFE_MS)];
      for (const at of moments) {
        expect(BigInt(unitsNotBegun(paid, at)) * priceMicros).toBe(BigInt(refundAt(whole, at)));
        expect(worthMicros(paid, newMicros, at)).toBe(worthAt({ ...whole, price: Number(newMicros) }, at));
      }
    }),
    { numRuns: atLevel({ short: 500, long: 20_000 }) },
  );
});
