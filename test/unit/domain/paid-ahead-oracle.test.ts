/** Paid time in six zones, against the calculator: ends, refunds and worth, over renewals. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  begin,
  renew,
  totalMicros,
  unitsNotBegun,
  worthMicros,
  type PaidTime,
} from '../../../src/domain/money/paid-time.ts';
import type { PaidAheadMode } from '../../../src/domain/regions/catalog.ts';
import { spend, type CreditGrant, type Purse } from '../../../src/domain/money/purse.ts';
import { planRefund, refundTo } from '../../../src/domain/money/refund.ts';
import { atLevel } from '../../fixtures/level.ts';
import { paidUntil, refundAt, worthAt, type Unit } from '../../oracle/paid-ahead.ts';
import { Purses } from '../../oracle/purses.ts';
import { changesOf, DAY, HOUR, MINUTE, zones } from '../../oracle/zones.ts';

const numRuns = atLevel({ short: 120, long: 20_000 });
const modes: readonly { chargeMode: PaidAheadMode; unit: Unit }[] = [
  { chargeMode: 'perDay', unit: 'day' },
  { chargeMode: 'perWeek', unit: 'week' },
  { chargeMode: 'perMonth', unit: 'month' },
];

/** Begins near a change of the clocks, at the end of January or of a leap February, or anywhere. */
const life = fc
  .record({
    zone: fc.constantFrom(...zones),
    year: fc.integer({ min: 2025, max: 2030 }),
    near: fc.nat(4),
    ms: fc.nat({ max: 2 * DAY }),
    mode: fc.constantFrom(...modes),
    units: fc.integer({ min: 1, max: 14 }),
    price: fc.constantFrom(1, 7, 999_999, 24_000_000, 333_333_333),
    renewals: fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }),
    elapsed: fc.nat({ max: 1_000_000 }),
  })
  .map(({ near, ms, year, ...rest }) => {
    const edges = [...changesOf(rest.zone, year), Date.UTC(year, 0, 30), Date.UTC(2028, 1, 28), Date.UTC(year, 5, 30)];
    const days = Math.floor(ms / (4 * HOUR)) * DAY;
    return { ...rest, from: (edges[near % edges.length] ?? 0) - days + (ms % (4 * HOUR)) - 2 * HOUR };
  });

test('ends, refunds and values paid time as the calculator does', () => {
  fc.assert(
    fc.property(life, ({ zone, from, mode: { chargeMode, unit }, units, price, renewals, elapsed }) => {
      const bought = { units, priceMicros: BigInt(price), isPaid: true };
      const unbegun = {
        ...bought,
        chargeMode,
        anchorMs: null,
        unitsBefore: 0,
        timeZone: '',
        endsAtMs: null,
        dueAtMs: null,
      };
      const span = { zone, unit, begin: from, units, price };
      let paid: PaidTime = begin(unbegun, from, zone);
      for (let count = 1; count <= units; count++)
        expect(begin({ ...unbegun, units: count }, from, zone).endsAtMs).toBe(paidUntil({ ...span, units: count }));
      for (const more of renewals) {
        const late = (paid.endsAtMs ?? 0) + 30 * MINUTE;
        paid = renew(paid, { ...bought, units: more }, late);
        span.units += more;
        expect(paid.endsAtMs).toBe(paidUntil(span));
      }
      const startMs = paidUntil({ ...span, units: span.units - paid.units });
      const first = renewals.length === 0 ? from : startMs;
      const at = first + Math.floor(((paidUntil(span) - first) * elapsed) / 1_000_000);
      const second = paidUntil({ ...span, units: span.units - paid.units + 1 });
      for (const atMs of [at, startMs, second]) {
        if (atMs < first) continue;
        expect(BigInt(unitsNotBegun(paid, atMs)) * paid.priceMicros).toBe(BigInt(refundAt(span, atMs)));
        expect(worthMicros(paid, paid.priceMicros, atMs)).toBe(worthAt(span, atMs));
        expect(worthMicros(paid, 123_457n, atMs)).toBe(worthAt({ ...span, price: 123_457 }, atMs));
      }
      const never = { zone, unit, begin: undefined, units, price };
      expect(totalMicros(unbegun)).toBe(BigInt(refundAt(never, from)));
      expect(worthMicros(unbegun, 5n, from)).toBe(worthAt({ ...never, price: 5 }, from));
    }),
    { numRuns },
  );
});

test('pays ahead and refunds from and to the purses as the calculator does', () => {
  const grant = fc.record({
    kind: fc.constantFrom('voucher' as const, 'credit' as const),
    amount: fc.integer({ min: 1, max: 500 }),
    expiresAt: fc.option(fc.integer({ min: 5, max: 30 }), { nil: undefined }),
  });
  const shape = {
    cash: fc.nat(500),
    grants: fc.array(grant, { maxLength: 5 }),
    price: fc.integer({ min: 1, max: 900 }),
  };
  fc.assert(
    fc.property(fc.record(shape), fc.nat(900), ({ cash, grants, price }, back) => {
      const theirs = new Purses();
      theirs.deposit(cash);
      for (const given of grants) theirs.give(given);
      const payment = theirs.payAhead(BigInt(price), {}, 10);

      const purse: Purse = {
        cashMicros: BigInt(cash),
        floorMicros: 0n,
        grants: grants.map(({ kind, amount, expiresAt }, at): CreditGrant => ({
          id: String(at),
          kind,
          leftMicros: BigInt(amount),
          expiresAtMs: expiresAt ?? null,
          scope: {},
          createdAtMs: at,
        })),
      };
      const purchase = { regionId: '', instanceTypeId: '', meter: 'compute' as const };
      const spent = spend(purse, BigInt(price), purchase, 10);
      expect(spent.unpaidMicros > 0n).toBe(payment === undefined);
      if (payment === undefined) return;
      const amount = back > price ? price : back;
      theirs.refund(BigInt(amount), [payment]);
      const entries = spent.payments.map((one, at) => ({ ...one, entryId: at }));
      const after = refundTo(spent.purse, [], planRefund(entries, BigInt(amount)));
      const sum = (kind: string) =>
        after.grants.reduce((all, one) => (one.kind === kind ? all + one.leftMicros : all), 0n);
      const { balances } = theirs;
      expect([after.cashMicros, sum('voucher'), sum('credit')]).toEqual([
        balances.cash,
        balances.voucher,
        balances.credit,
      ]);
    }),
    { numRuns },
  );
});
