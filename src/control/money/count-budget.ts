/** Counts what budgets have spent in the current month. */
import { DAY_MS, HOUR_MS } from '../../domain/kernel/durations.ts';
import { monthOf, type TimeSpan } from '../../domain/money/usage-buckets.ts';
import { spentBetween, type BudgetRow, type BudgetScope } from '../../store/tables/budgets.ts';
import type { Db } from '../../store/store.ts';

/** Bookings add to entries of at most two hours before. */
const UNSETTLED_MS = 3 * HOUR_MS;

export interface CountedBudget extends TimeSpan {
  month: string;
  settledUntilMs: number;
  settledMicros: number;
  spentMicros: number;
}

/** Sums by days that have come: one sum of a long span would hold other requests. */
async function spentByDays(db: Db, scope: BudgetScope, { fromMs, untilMs }: TimeSpan, nowMs: number): Promise<number> {
  let spent = 0;
  let at = fromMs;
  for (; at + DAY_MS < Math.min(untilMs, nowMs); at += DAY_MS) {
    spent += await spentBetween(db, scope, { fromMs: at, untilMs: at + DAY_MS });
  }
  // The last one goes to the end of the span: a clock that was set back leaves later entries.
  return at < untilMs ? spent + (await spentBetween(db, scope, { fromMs: at, untilMs })) : spent;
}

/** Hours of the current month that no booking changes any more. */
export type Settled = Pick<BudgetRow, 'month' | 'settledUntilMs' | 'settledMicros'>;
export const NOTHING_SETTLED: Settled = { month: '', settledUntilMs: 0, settledMicros: 0 };

type Counted = Pick<BudgetRow, 'labelKey' | 'labelValue' | 'timeZone'>;
export const countsAlike = (a: Counted, b: Counted): boolean =>
  a.labelKey === b.labelKey && a.labelValue === b.labelValue && a.timeZone === b.timeZone;

/** Adds to what was counted before. */
export async function countBudget(
  db: Db,
  budget: BudgetScope & Settled & Pick<BudgetRow, 'timeZone'>,
  nowMs: number,
): Promise<CountedBudget> {
  const { month, ...span } = monthOf(nowMs, budget.timeZone);
  const isSame = budget.month === month;
  const before = isSame ? budget.settledUntilMs : span.fromMs;
  const settledUntilMs = Math.max(before, Math.floor((nowMs - UNSETTLED_MS) / HOUR_MS) * HOUR_MS);
  const more = await spentByDays(db, budget, { fromMs: before, untilMs: settledUntilMs }, nowMs);
  const settledMicros = (isSame ? budget.settledMicros : 0) + more;
  const unsettled = await spentByDays(db, budget, { fromMs: settledUntilMs, untilMs: span.untilMs }, nowMs);
  return { month, ...span, settledUntilMs, settledMicros, spentMicros: settledMicros + unsettled };
}
