/** Notes which budgets are reached, and stops what those do not allow. */
import { toDollars } from '../../domain/regions/catalog.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { isHourly } from '../../domain/money/meter.ts';
import { monthOf } from '../../domain/money/usage-buckets.ts';
import { encodeFlag } from '../../store/db/columns.ts';
import { lockAccount } from '../../store/tables/accounts.ts';
import {
  allReachedBudgets,
  budgetNamed,
  budgetsAfter,
  changeBudget,
  runningInScope,
  type BudgetRow,
} from '../../store/tables/budgets.ts';
import { appendEvent } from '../../store/tables/events.ts';
import type { Store } from '../../store/store.ts';
import { countBudget, countsAlike } from './count-budget.ts';
import type { MeteredDeps } from './metering.ts';
import type { StopAutomatically, TaskDeps, Time } from '../kernel/ports.ts';

const PAGE_SIZE = 200;
export const isReached = (limitMicros: number | null, spentMicros: number): boolean =>
  limitMicros !== null && spentMicros >= limitMicros;

/** Writes what was counted, and an event for each limit that was not reached before. */
export async function noteBudget(
  { store, time, nowMs }: { store: Store; time: Pick<Time, 'now'>; nowMs: number },
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
    if (
      current?.id !== id ||
      !countsAlike(current, budget) ||
      current.softMicros !== softMicros ||
      current.hardMicros !== hardMicros
    )
      return;
    const event = async (kind: string, limitMicros: number | null): Promise<void> => {
      const data = { name, month, limit: toDollars(limitMicros ?? 0), spent: toDollars(spentMicros) };
      await appendEvent(tx, { accountId, atMs: time.now(), kind, subjectId: accountId, data });
    };
    if (soft && !had.soft) await event('billing.budgetSoft', softMicros);
    if (hard && !had.hard) await event('billing.budgetHard', hardMicros);
    await changeBudget(tx, id, { month, settledUntilMs, settledMicros, ...flags });
  });
}

interface FollowBudgetsDeps extends Pick<TaskDeps, 'store' | 'time' | 'log'>, Pick<MeteredDeps, 'metering'> {
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
      for (const budget of page) await tryTo(budget.id, noteBudget({ store, time, nowMs: clock.now() }, budget));
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
