/** Refuses what costs money that the account has not. The account's row is locked by an event. */
import type { BoundedMap } from '../../async/bounded-map.ts';
import { HOUR_MS } from '../../domain/kernel/durations.ts';
import { isHourly, rateOfRun, type Rate } from '../../domain/money/meter.ts';
import { toDollars, type Micros } from '../../domain/regions/catalog.ts';
import { isInUse, type Instance } from '../../domain/compute/instance.ts';
import { currentPriceMicros } from '../../domain/compute/instance-change.ts';
import {
  burnRate,
  costOf,
  isAtLeast,
  lastingMs,
  startThreshold,
  type Cost,
  type MoneyRules,
} from '../../domain/money/money-ladder.ts';
import { noBalance } from '../../domain/money/no-balance.ts';
import { totalMicros } from '../../domain/money/paid-time.ts';
import { availableFor, grantedMicros, spendableCash, type Purchase } from '../../domain/money/purse.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { monthOf } from '../../domain/money/usage-buckets.ts';
import { budgetsOf, isInScope, reachedBudgetsOf, type BudgetRow } from '../../store/tables/budgets.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import { lockWallets } from '../../store/tables/ledger.ts';
import { chargedCostsOf, moneyStateOf, startingRowsOf } from '../../store/tables/money-steps.ts';
import type { Db } from '../../store/store.ts';
import { countBudget } from './count-budget.ts';
import type { MeterClock } from './meter-clock.ts';

export interface Charging {
  isBilled: boolean;
  clock: Pick<MeterClock, 'now'>;
  moneyRules: MoneyRules;
  /** Margins by account. */
  startMargins: BoundedMap<StartMargin>;
}

export const purchaseOf = ({ spec }: Pick<Instance, 'spec'>): Purchase => ({
  regionId: spec.regionId,
  instanceTypeId: spec.type.id,
  meter: 'compute',
});

export const costOfRun = (instance: Instance): Cost =>
  costOf(purchaseOf(instance), rateOfRun(currentPriceMicros(instance)));

/** Costs of the account now; instances that are about to start count as running. */
export async function costsOf(db: Db, accountId: string, withoutId = ''): Promise<Cost[]> {
  const starting = (await startingRowsOf(db, accountId)).filter(({ id }) => id !== withoutId).map(instanceFromRow);
  // A restart counts with its next run.
  const isNext = (one: Instance): boolean => one.observed.ending !== null || !isInUse(one);
  const hourly = starting.filter((one) => isHourly(one.spec.chargeMode) && isNext(one));
  const notCharged = new Set([withoutId, ...hourly.map(({ id }) => id)]);
  return [...(await chargedCostsOf(db, accountId, (id) => !notCharged.has(id))), ...hourly.map(costOfRun)];
}

/** Cost by the hour that further runs of an account may add before its costs are counted again. */
export interface StartMargin {
  micros: Micros;
  /** Money that pays for everything, at the count: with less of it the margin is void. */
  paysAllMicros: Micros;
}

/** Refuses a launch, start or dearer restart when the money would end too soon with it. */
export async function refuseUnpaidRun(
  tx: Db,
  { isBilled, clock, moneyRules, startMargins }: Charging,
  instance: Instance,
  what: 'launch' | 'start' | 'restart',
): Promise<void> {
  const { ownerId, spec } = instance;
  const isByHour = isHourly(spec.chargeMode);
  if (!isBilled || (what !== 'launch' && !isByHour)) return;
  const nowMs = clock.now();
  await refuseOverBudget(tx, instance, nowMs);
  if (!isByHour) await refuseBeyondBudget(tx, instance, nowMs);
  const wallet = (await lockWallets(tx, [ownerId])).get(ownerId);
  if (!wallet) return;
  const availableMicros = availableFor(wallet.purse, purchaseOf(instance), nowMs);
  if (what === 'launch' && isByHour) refuseWithoutHour(availableMicros, instance, 'launch');
  const { step } = await moneyStateOf(tx, ownerId);
  const priceMicros = isByHour ? currentPriceMicros(instance) : 0n;
  const paysAllMicros = spendableCash(wallet.purse) + grantedMicros(wallet.purse, 'credit', nowMs);
  const margin = startMargins.get(ownerId);
  if (margin && !isAtLeast(step, 'noStarts') && paysAllMicros >= margin.paysAllMicros && margin.micros >= priceMicros) {
    margin.micros -= priceMicros;
    return;
  }
  const others = await costsOf(tx, ownerId, instance.id);
  const costs = isByHour ? [...others, costOfRun(instance)] : others;
  const leftMs = lastingMs(wallet.purse, costs, nowMs);
  const thresholdMs = startThreshold(moneyRules, step);
  const rate = burnRate(costs);
  if (leftMs >= thresholdMs) {
    const mostMicros = (paysAllMicros * BigInt(HOUR_MS)) / BigInt(Math.max(1, Math.ceil(thresholdMs)));
    // Another process on the same database may have the other half.
    startMargins.set(ownerId, { micros: (mostMicros - rate) / 2n, paysAllMicros });
    return;
  }
  const [left, least] = [Math.floor(leftMs / 60_000), Math.ceil(thresholdMs / 60_000)];
  const missing = toDollars((rate * BigInt(Math.ceil(thresholdMs - leftMs))) / 3_600_000n + 1n);
  throw new Refusal(
    'no_balance',
    `with this ${what} the account would spend $${toDollars(rate)} an hour, and $${toDollars(availableMicros)} is available, which lasts ${left} minutes; at least ${least} minutes are needed, and $${missing} is missing: top up the account, stop an instance, or choose a cheaper type`,
  );
}

export function refuseWithoutHour(
  availableMicros: Micros,
  { priceMicros: needMicros }: Pick<Instance, 'priceMicros'>,
  what: string,
): void {
  if (availableMicros >= needMicros) return;
  throw noBalance({ needMicros, availableMicros }, { what, purpose: ' for an hour', instead: 'choose a cheaper type' });
}

async function refuseOverBudget(tx: Db, { id, ownerId }: Instance, nowMs: number): Promise<void> {
  for (const budget of await reachedBudgetsOf(tx, ownerId)) {
    if (monthOf(nowMs, budget.timeZone).month !== budget.month || !(await isInScope(tx, budget, id))) continue;
    throw new Refusal(
      'no_balance',
      `${textOf(budget)} is reached in ${budget.month}; ${remedyOf(budget)}, or wait for the next month`,
    );
  }
}

/** Refuses a launch that has paid ahead more than a budget had left. */
async function refuseBeyondBudget(tx: Db, instance: Instance, nowMs: number): Promise<void> {
  for (const budget of await budgetsOf(tx, instance.ownerId)) {
    if (budget.hardMicros === null || !(await isInScope(tx, budget, instance.id))) continue;
    const { month, spentMicros } = await countBudget(tx, budget, nowMs);
    if (spentMicros <= budget.hardMicros) continue;
    const total = totalMicros({ units: instance.spec.duration, priceMicros: instance.priceMicros });
    const left = BigInt(budget.hardMicros - spentMicros) + total;
    throw new Refusal(
      'no_balance',
      `the launch pays $${toDollars(total)} ahead, and ${textOf(budget)} has $${toDollars(left > 0n ? left : 0n)} left in ${month}; choose a shorter time or a cheaper type, ${remedyOf(budget)}, or wait for the next month`,
    );
  }
}

const textOf = ({ name, labelKey, labelValue, hardMicros }: BudgetRow): string =>
  `budget ${JSON.stringify(name)} of $${toDollars(hardMicros ?? 0)} a month${labelKey === '' ? '' : ` for ${labelKey}=${labelValue}`}`;
const remedyOf = ({ byAdministrator }: BudgetRow): string =>
  byAdministrator === 1 ? 'ask an administrator to raise it' : 'raise or delete it';

/** Whether storage is created or grows. */
const isMore = (before: Rate | null, after: Rate | null): boolean =>
  after?.state === 'charged' &&
  after.meter !== 'compute' &&
  (before === null || (before.meter === after.meter && before.quantity < after.quantity));

/** Refuses new and larger storage once nothing is left to pay for it. */
export async function refuseUnpaidStorage(
  tx: Db,
  accountId: string,
  {
    before,
    after,
    of,
    nowMs,
  }: { before: Rate | null; after: Rate; of: { regionId: string; typeId: string }; nowMs: number },
): Promise<void> {
  if (!isMore(before, after)) return;
  const wallet = (await lockWallets(tx, [accountId])).get(accountId);
  const purchase = { regionId: of.regionId, instanceTypeId: of.typeId, meter: after.meter };
  if (!wallet || availableFor(wallet.purse, purchase, nowMs) > 0n) return;
  throw new Refusal(
    'no_balance',
    `the account has $0 available, and storage is charged by size and time; top up the account before you create or expand a ${after.meter === 'disks' ? 'disk' : after.meter}`,
  );
}
