import fc from 'fast-check';
import { env } from 'node:process';
import { expect, test } from 'vitest';
import type { PeriodRow } from '../../../src/store/tables/usage-periods.ts';
import { atLevel } from '../../fixtures/level.ts';
import { calculate } from '../../oracle/calculator.ts';
import { ledgers, type Ledger } from '../../oracle/purses.ts';
import { lifeOf } from '../../oracle/random-life.ts';
import { chargeLife } from './charged-life.ts';

const LIVES = Number(env['BERTH_LIVES'] ?? atLevel({ short: 3_000, long: 100_000, soak: 1_000_000 }));
/** A million take minutes of one core, without a turn in which a deadline could end them. */
const DEADLINE_MS = 3_600_000;
const LARGEST = 2 ** 48;
/** Lives of free runs that were wrong: the engine was lost, or the clock set back by years. */
const WRONG_ONCE = [
  [
    91428758389918, 64787327879158, 203713679252550, 145631133195935, 55343653188404, 167346796204703, 185925613695558,
    188892617021120, 0,
  ],
  [
    167682617518006, 68320582609958, 116764794864694, 177885224613087, 58606257200646, 104019219916143, 102430813230246,
    48917802552912, 0,
  ],
];

/** Periods of a resource that overlap, as they do only after a clock was set back. */
function overlaps(periods: readonly PeriodRow[]): string[] {
  const byResource = Map.groupBy(periods, ({ subjectId }) => subjectId);
  return [...byResource].flatMap(([id, own]) =>
    own.slice(1).flatMap((period, at) => {
      const { closedAtMs } = own[at] as PeriodRow;
      return closedAtMs === null || period.openedAtMs < closedAtMs ? [`${id}: ${period.id} begins before the end`] : [];
    }),
  );
}

/** Bookings and carry of a resource's meter are its exact cost. */
function inexact(periods: readonly PeriodRow[]): string[] {
  const byMeter = Map.groupBy(
    periods.filter(({ state }) => state === 'charged'),
    ({ subjectId, meter }) => `${subjectId} ${meter}`,
  );
  return [...byMeter].flatMap(([name, own]) => {
    const unit = BigInt(own[0]?.unitMs ?? 1);
    let cost = 0n;
    let booked = 0n;
    for (const one of own) {
      const paidMs = one.priceMicros === 0 ? 0 : one.chargedUntilMs - one.openedAtMs;
      cost += BigInt(one.priceMicros) * BigInt(one.quantity) * BigInt(paidMs);
      booked += BigInt(one.chargedMicros);
    }
    const carry = BigInt(own.at(-1)?.carry ?? 0);
    return booked * unit + carry === cost && carry < unit ? [] : [`${name}: ${booked} and ${carry} for ${cost}`];
  });
}

test(
  `charges ${LIVES} random lives as the calculator does, to the micro-dollar`,
  () => {
    const numbers = fc.array(fc.nat({ max: LARGEST }), { minLength: 1, maxLength: 45, size: 'max' });
    const origin = fc.constantFrom(1_700_000_000_123, Date.UTC(2028, 1, 28, 23, 30), Date.UTC(2026, 9, 25, 0, 10));
    const overdraft = fc.constantFrom(0, 0, 250_000);
    fc.assert(
      fc.property(numbers, origin, overdraft, (choices, startsAt, allowed) => {
        const facts = lifeOf(choices, startsAt);
        const options = { origin: startsAt, overdraft: allowed };
        const ours = chargeLife(facts, options);
        const theirs = calculate(facts, options);

        const charged = new Map<string, bigint>();
        const balances = Object.fromEntries(ledgers.map((ledger) => [ledger, 0n])) as Record<Ledger, bigint>;
        for (const { fromLedger, toLedger, amountMicros, line } of ours.entries) {
          if (amountMicros <= 0) throw new Error(`an entry of ${amountMicros}`);
          balances[fromLedger as Ledger] -= BigInt(amountMicros);
          balances[toLedger as Ledger] += BigInt(amountMicros);
          if (line !== undefined) charged.set(line, (charged.get(line) ?? 0n) + BigInt(amountMicros));
        }
        const costs = theirs.lines
          .filter(({ booked }) => booked > 0n)
          .map((one) => [`${one.resource} ${one.meter}`, one.booked] as const);
        expect(charged).toEqual(new Map(costs));
        expect(balances).toEqual(theirs.balances);
        expect(ledgers.reduce((sum, ledger) => sum + balances[ledger], 0n)).toBe(0n);
        const { cashMicros, grants, floorMicros } = ours.wallet.purse;
        const held = (kind: string) => grants.reduce((sum, one) => sum + (one.kind === kind ? one.leftMicros : 0n), 0n);
        expect([cashMicros, held('voucher'), held('credit')]).toEqual([
          balances.cash,
          balances.voucher,
          balances.credit,
        ]);
        expect(cashMicros >= floorMicros).toBe(true);
        // Small steps count as time, and are taken back by the first booking after a larger one.
        const isSetBack = facts.some((one) => one.fact === 'step' && one.byMs <= 2_000);
        expect([...(isSetBack ? [] : overlaps(ours.periods)), ...inexact(ours.periods)]).toEqual([]);
      }),
      { numRuns: LIVES, examples: WRONG_ONCE.map((choices) => [choices, 1_700_000_000_123, 0]) },
    );
  },
  DEADLINE_MS,
);
