/** What an instance has cost, from its usage periods. Pure. */
import type { AnswerOf } from '../../../../src/contract/routes.ts';

export type UsagePeriod = AnswerOf<'listUsagePeriods'>['periods'][number];
export type Payment = AnswerOf<'listEntries'>['entries'][number];

const CENT_FRACTIONS = 1_000_000;

/** Dollars: metered use and what was paid ahead, less what came back. */
export function totalOf(periods: readonly Pick<UsagePeriod, 'amount'>[], payments: readonly Pick<Payment, 'amount'>[]) {
  const used = periods.reduce((sum, { amount }) => sum + amount, 0);
  const paid = payments.reduce((sum, { amount }) => sum - amount, 0);
  // The sum of decimals has digits that no amount has.
  return Math.round((used + paid) * CENT_FRACTIONS) / CENT_FRACTIONS;
}

const isCharged = ({ state }: Pick<UsagePeriod, 'state'>): boolean => state === 'charged';

export const lengthOf = ({ fromUnixMs, untilUnixMs }: UsagePeriod, nowMs: number): number =>
  Math.max(0, (untilUnixMs ?? nowMs) - fromUnixMs);

export interface TimeShares {
  chargedMs: number;
  paidAheadMs: number;
  freeMs: number;
}

/** Time of the processors and GPUs, charged and free. Kept disks are storage, not time. */
export function sharesOf(periods: readonly UsagePeriod[], nowMs: number): TimeShares {
  const shares = { chargedMs: 0, paidAheadMs: 0, freeMs: 0 };
  for (const period of periods.filter(({ meter }) => meter === 'compute')) {
    const ms = lengthOf(period, nowMs);
    if (period.state === 'paidAhead') shares.paidAheadMs += ms;
    else if (isCharged(period)) {
      shares.chargedMs += Math.max(0, ms - period.freeMs);
      shares.freeMs += Math.min(ms, period.freeMs);
    } else shares.freeMs += ms;
  }
  return shares;
}

const STORAGE_HOURS = 30 * 24;

/** Dollars an hour that the open periods cost now. */
export const hourlyOf = (periods: readonly UsagePeriod[]): number =>
  periods
    .filter((period) => period.untilUnixMs === null && isCharged(period))
    .reduce(
      (sum, { meter, price, quantity }) =>
        sum + (meter === 'compute' ? price * quantity : (price * quantity) / STORAGE_HOURS),
      0,
    );
