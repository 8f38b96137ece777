/** Steps of accounts whose money ends: in order, without flapping, and never early to deletion. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOUR_MS, DAY_MS } from '../../../src/domain/kernel/durations.ts';
import {
  burnRate,
  costOf,
  defaultMoneyRules,
  comingSteps,
  isAtLeast,
  lastingMs,
  lastsUntilMs,
  moneySteps,
  nextMoneyState,
  startThreshold,
  withMoney,
  type MoneyRules,
  type MoneyState,
} from '../../../src/domain/money/money-ladder.ts';
import { rateOfRun, STORAGE_UNIT_MS } from '../../../src/domain/money/meter.ts';
import type { CreditGrant, Purse } from '../../../src/domain/money/purse.ts';

const rules = defaultMoneyRules;
const at = (step: MoneyState['step'], more: Partial<MoneyState> = {}): MoneyState => ({ ...withMoney, step, ...more });
const stepAfter = (state: MoneyState, leftMs: number, nowMs = 0): MoneyState['step'] =>
  nextMoneyState(state, { leftMs, nowMs }, rules).step;
const order = (step: MoneyState['step']): number => moneySteps.indexOf(step);

const anyStep = fc.constantFrom(...moneySteps);
const anyLeft = fc.oneof(fc.integer({ min: 0, max: 100 * HOUR_MS }), fc.constant(Infinity));

test.each([
  [Infinity, 'none'],
  [72 * HOUR_MS, 'none'],
  [72 * HOUR_MS - 1, 'forecast'],
  [24 * HOUR_MS - 1, 'warn'],
  [HOUR_MS - 1, 'noStarts'],
  [1, 'noStarts'],
  [0, 'stop'],
] as const)('money for %d ms is the step %s', (leftMs, step) => {
  expect(stepAfter(withMoney, leftMs)).toBe(step);
});

test('money lasts until a date, however much it is', () => {
  expect(lastsUntilMs(5, 10)).toBe(15);
  expect(lastsUntilMs(Infinity, 10)).toBeNull();
  expect(Number.isSafeInteger(lastsUntilMs(1e30, Date.UTC(2027, 0)))).toBe(true);
  expect(new Date(lastsUntilMs(1e30, Date.UTC(2027, 0)) ?? NaN).getTime()).toBeGreaterThan(Date.UTC(9999, 0));
});

test('coming steps have the times of the rules, without those that are reached or never come', () => {
  const untilMs = 100 * HOUR_MS;
  expect(comingSteps(withMoney, untilMs, rules)).toEqual([
    { step: 'forecast', atUnixMs: 28 * HOUR_MS },
    { step: 'warn', atUnixMs: 76 * HOUR_MS },
    { step: 'noStarts', atUnixMs: 99 * HOUR_MS },
    { step: 'stop', atUnixMs: untilMs },
    { step: 'archive', atUnixMs: untilMs + 7 * DAY_MS },
    { step: 'delete', atUnixMs: untilMs + 30 * DAY_MS },
  ]);
  const names = (state: MoneyState, own = rules): string[] => comingSteps(state, untilMs, own).map(({ step }) => step);
  expect(names(at('warn'), { ...rules, archiveMs: null, deleteMs: null })).toEqual(['noStarts', 'stop']);
  expect(comingSteps(withMoney, null, rules)).toEqual([]);
  expect(comingSteps(at('archive', { archiveAtMs: 1, deleteAtMs: 2 }), null, rules)).toEqual([
    { step: 'delete', atUnixMs: 2 },
  ]);
});

test('less money is never a milder step', () => {
  fc.assert(
    fc.property(anyStep, anyLeft, anyLeft, (step, one, other) => {
      const state = at(step, { archiveAtMs: 5, deleteAtMs: 9 });
      const [less, more] = [Math.min(one, other), Math.max(one, other)];
      expect(order(stepAfter(state, less))).toBeGreaterThanOrEqual(order(stepAfter(state, more)));
    }),
  );
});

test('an account that swings within a tenth of a threshold changes its step once', () => {
  const limits = [rules.forecastMs, rules.warnMs, rules.noStartsMs];
  fc.assert(
    fc.property(
      fc.constantFrom(...limits),
      fc.array(fc.double({ min: 0.92, max: 1.08, noNaN: true })),
      (limit, swings) => {
        let state = nextMoneyState(withMoney, { leftMs: limit * 0.99, nowMs: 0 }, rules);
        const { step } = state;
        for (const swing of swings) state = nextMoneyState(state, { leftMs: limit * swing, nowMs: 0 }, rules);
        expect(state.step).toBe(step);
      },
    ),
  );
});

test('money ends a stop and all that follows at once', () => {
  for (const step of ['stop', 'archive', 'delete'] as const) {
    const state = at(step, { archiveAtMs: 1, deleteAtMs: 2, deleteWarnedAtMs: 1 });
    expect(nextMoneyState(state, { leftMs: rules.forecastMs, nowMs: 5 }, rules)).toEqual(withMoney);
    expect(nextMoneyState(state, { leftMs: rules.warnMs, nowMs: 5 }, rules)).toEqual(at('forecast'));
  }
});

test('deletes only after stop, archive, a warning, and the full days, whatever the clock does', () => {
  const days = fc.option(
    fc.integer({ min: 1, max: 40 }).map((count) => count * DAY_MS),
    { nil: null },
  );
  const looks = fc.array(
    fc.record({
      afterMs: fc.integer({ min: -8 * DAY_MS, max: 12 * DAY_MS }),
      leftMs: fc.constantFrom(0, 0, 0, 0, HOUR_MS),
    }),
    { maxLength: 12 },
  );
  fc.assert(
    fc.property(days, days, looks, (archiveMs, deleteMs, all) => {
      const own: MoneyRules = { ...rules, archiveMs, deleteMs };
      let state: MoneyState = withMoney;
      let nowMs = 0;
      let stoppedAtMs = Infinity;
      let archived = false;
      let warnedAtMs = Infinity;
      for (const { afterMs, leftMs } of all) {
        nowMs += afterMs;
        const next = nextMoneyState(state, { leftMs, nowMs }, own);
        if (leftMs === 0 && isAtLeast(next.step, 'stop') && !isAtLeast(state.step, 'stop'))
          [stoppedAtMs, archived, warnedAtMs] = [nowMs, false, Infinity];
        if (next.step === 'archive' && state.step !== 'archive') {
          expect(nowMs).toBeGreaterThanOrEqual(stoppedAtMs + (archiveMs ?? Infinity));
          archived = true;
        }
        if (next.deleteWarnedAtMs !== null && state.deleteWarnedAtMs === null) warnedAtMs = nowMs;
        if (next.step === 'delete' && state.step !== 'delete') {
          expect(nowMs).toBeGreaterThanOrEqual(stoppedAtMs + (deleteMs ?? Infinity));
          expect(nowMs).toBeGreaterThanOrEqual(warnedAtMs + DAY_MS);
          expect(archived || archiveMs === null).toBe(true);
        }
        if (isAtLeast(next.step, 'stop'))
          expect(order(next.step)).toBeLessThanOrEqual(Math.max(order(state.step) + 2, order('stop')));
        if (!isAtLeast(state.step, 'stop')) expect(isAtLeast(next.step, 'archive')).toBe(false);
        state = next;
      }
    }),
    { numRuns: 2_000 },
  );
});

test('starts are allowed again at a tenth more than the step', () => {
  expect(startThreshold(rules, 'warn')).toBe(HOUR_MS);
  expect(startThreshold(rules, 'stop')).toBeCloseTo(HOUR_MS * 1.1);
});

const purchase = { regionId: 'here', instanceTypeId: 'cpu', meter: 'compute' } as const;
const storage = { ...purchase, instanceTypeId: '', meter: 'volume' } as const;
const purse = (cashMicros: bigint, grants: Partial<CreditGrant>[] = []): Purse => ({
  cashMicros,
  floorMicros: 0n,
  grants: grants.map((grant, index) => ({
    id: String(index),
    kind: 'voucher',
    leftMicros: 0n,
    expiresAtMs: null,
    scope: {},
    createdAtMs: 0,
    ...grant,
  })),
});

test('adds the costs of hours and of storage exactly', () => {
  const costs = [
    costOf(purchase, rateOfRun(1_000_000n)),
    costOf(storage, { priceMicros: 7n, quantity: 3, unitMs: STORAGE_UNIT_MS }),
  ];
  expect(burnRate(costs)).toBe(1_000_000n);
  expect(lastingMs(purse(2_000_000n), costs.slice(0, 1), 0)).toBe(2 * HOUR_MS);
  expect(lastingMs(purse(21n), costs.slice(1), 0)).toBe(STORAGE_UNIT_MS);
  expect(lastingMs(purse(0n), [], 0)).toBe(Infinity);
});

test('counts a voucher for what its scope fits, and the overdraft', () => {
  const costs = [costOf(purchase, rateOfRun(10n)), costOf(storage, rateOfRun(10n))];
  const voucher = { leftMicros: 1_000n, scope: { meter: 'compute' } } as const;
  expect(lastingMs(purse(0n, [voucher]), costs, 0)).toBe(0);
  expect(lastingMs(purse(100n, [voucher]), costs, 0)).toBe(10 * HOUR_MS);
  expect(lastingMs(purse(0n, [{ ...voucher, expiresAtMs: 5 }]), costs.slice(0, 1), 5)).toBe(0);
  expect(lastingMs({ ...purse(0n), floorMicros: -10n }, costs.slice(0, 1), 0)).toBe(HOUR_MS);
});
