/** Counts what budgets have spent, notes which are reached, and stops what those do not allow. */
import { toDollars } from '../../domain/catalog.ts';
import { MINUTE_MS, HOUR_MS, DAY_MS } from '../../domain/durations.ts';
import { isHourly } from '../../domain/meter.ts';
import { monthOf, type TimeSpan } from '../../domain/usage-buckets.ts';
import { encodeFlag } from '../../store/db/columns.ts';
import { lockAccount } from '../../store/tables/accounts.ts';
import {
  allReachedBudgets,
  budgetNamed,
  budgetsAfter,
  changeBudget,
  runningInScope,
  spentBetween,
  type BudgetRow,
  type BudgetScope,
} from '../../store/tables/budgets.ts';
import { appendEvent } from '../../store/tables/events.ts';
import type { Db, Store } from '../../store/store.ts';
import type { TaskDeps, UseCaseDeps } from '../base/deps.ts';
import type { StopAutomatically } from '../instances/actions.ts';

const PAGE_SIZE = 200;
/** Bookings add to entries of at most two hours before. */
const UNSETTLED_MS = 3 * HOUR_MS;

export interface CountedBudget extends TimeSpan {
  month: string;
  settledUntilMs: number;
  settledMicros: number;
  spentMicros: number;
}

/** Sums by days: a span of many entries would hold other requests back. */
export async function spentByDays(db: Db, scope: BudgetScope, { fromMs, untilMs }: TimeSpan): Promise<number> {
  let spent = 0;
  for (let at = fromMs; at < untilMs; at += DAY_MS)
    spent += await spentBetween(db, scope, { fromMs: at, untilMs: Math.min(untilMs, at + DAY_MS) });
  return spent;
}

/** Adds to what was counted before. */
export async function countBudget(db: Db, budget: BudgetRow, nowMs: number): Promise<CountedBudget> {
  const { month, ...span } = monthOf(nowMs, budget.timeZone);
  const isSame = budget.month === month;
  const before = isSame ? budget.settledUntilMs : span.fromMs;
  const settledUntilMs = Math.max(before, Math.floor((nowMs - UNSETTLED_MS) / HOUR_MS) * HOUR_MS);
  const more = await spentByDays(db, budget, { fromMs: before, untilMs: settledUntilMs });
  const settledMicros = (isSame ? budget.settledMicros : 0) + more;
  const unsettled = await spentByDays(db, budget, { fromMs: settledUntilMs, untilMs: span.untilMs });
  return { month, ...span, settledUntilMs, settledMicros, spentMicros: settledMicros + unsettled };
}

export const isReached = (limitMicros: number | null, spentMicros: number): boolean =>
  limitMicros !== null && spentMicros >= limitMicros;

/** Writes what was counted, and an event for each limit that was not reached before. */
export async function noteBudget(
  { store, nowMs, atMs }: { store: Store; nowMs: number; atMs: number },
  budget: BudgetRow,
): Promise<void> {
  const { month, settledUntilMs, settledMicros, spentMicros } = await countBudget(store.read, budget, nowMs);
  const soft = isReached(budget.softMicros, spentMicros);
  const hard = isReached(budget.hardMicros, spentMicros);
  const isSame = budget.month === month;
  const had = { soft: isSame && budget.softReached === 1, hard: isSame && budget.hardReached === 1 };
  const flags = { softReached: encodeFlag(soft || had.soft), hardReached: encodeFlag(hard) };
  if (isSame && budget.settledUntilMs === settledUntilMs && had.hard === hard && (had.soft || !soft)) return;
  await store.write(async (tx) => {
    const { accountId, name, id, softMicros, hardMicros } = budget;
    await lockAccount(tx, accountId);
    const current = await budgetNamed(tx, accountId, name);
    if (current?.id !== id || current.softMicros !== softMicros || current.hardMicros !== hardMicros) return;
    const event = async (kind: string, limitMicros: number | null): Promise<void> => {
      const data = { name, month, limit: toDollars(limitMicros ?? 0), spent: toDollars(spentMicros) };
      await appendEvent(tx, { accountId, atMs, kind, subjectId: accountId, data });
    };
    if (soft && !had.soft) await event('billing.budgetSoft', softMicros);
    if (hard && !had.hard) await event('billing.budgetHard', hardMicros);
    await changeBudget(tx, id, { month, settledUntilMs, settledMicros, ...flags });
  });
}

interface FollowBudgetsDeps extends Pick<TaskDeps, 'store' | 'time' | 'log'>, Pick<UseCaseDeps, 'metering'> {
  stopAutomatically: StopAutomatically;
}

export function makeFollowBudgets({ store, time, log, metering, stopAutomatically }: FollowBudgetsDeps) {
  const { clock } = metering;
  let countedAtMs = -Infinity;
  let seenBookings = 0;

  const tryTo = (id: string, work: Promise<unknown>): Promise<unknown> =>
    work.catch((error: unknown) => log.warn({ id, err: error }, 'could not follow a budget; Berth retries'));

  async function countAll(): Promise<void> {
    if (metering.bookings() === seenBookings && clock.now() - countedAtMs < MINUTE_MS) return;
    [seenBookings, countedAtMs] = [metering.bookings(), clock.now()];
    for (let afterId = ''; ;) {
      const page = await budgetsAfter(store.read, afterId, PAGE_SIZE);
      for (const budget of page)
        await tryTo(budget.id, noteBudget({ store, nowMs: clock.now(), atMs: time.now() }, budget));
      const last = page.at(-1);
      if (!last) return;
      afterId = last.id;
    }
  }

  return async (): Promise<void> => {
    if (!metering.isBilled) return;
    await countAll();
    for (const budget of await allReachedBudgets(store.read)) {
      if (monthOf(clock.now(), budget.timeZone).month !== budget.month) continue;
      const reason = `budget ${JSON.stringify(budget.name)}`;
      for (const one of await runningInScope(store.read, budget))
        await tryTo(
          one.id,
          stopAutomatically(one, ({ spec }) =>
            isHourly(spec.chargeMode) ? { cause: 'BudgetReached', why: { budget: budget.name }, reason } : null,
          ),
        );
    }
  };
}
