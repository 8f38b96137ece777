/** Refuses what costs money that the account has not. The account's row is locked by an event. */
import { isHourly, rateOfRun, type Rate } from '../../domain/meter.ts';
import { toDollars, type Micros } from '../../domain/catalog.ts';
import type { Instance } from '../../domain/instance.ts';
import { currentPriceMicros } from '../../domain/instance-change.ts';
import {
  burnRate,
  costOf,
  isAtLeast,
  lastingMs,
  startThreshold,
  type Cost,
  type MoneyRules,
} from '../../domain/money-ladder.ts';
import { noBalance } from '../../domain/no-balance.ts';
import { availableFor, type Purchase } from '../../domain/purse.ts';
import { Refusal } from '../../domain/refusal.ts';
import { monthOf } from '../../domain/usage-buckets.ts';
import { isInScope, reachedBudgetsOf } from '../../store/tables/budgets.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import { lockWallets } from '../../store/tables/ledger.ts';
import { chargedCostsOf, moneyStateOf, startingRowsOf } from '../../store/tables/money-steps.ts';
import type { Db } from '../../store/store.ts';
import type { MeterClock } from './meter-clock.ts';

export interface Charging {
  isBilled: boolean;
  clock: Pick<MeterClock, 'now'>;
  moneyRules: MoneyRules;
}

export const purchaseOf = ({ spec }: Pick<Instance, 'spec'>): Purchase => ({
  regionId: spec.regionId,
  instanceTypeId: spec.type.id,
  meter: 'compute',
});

export const costOfRun = (instance: Instance): Cost =>
  costOf(purchaseOf(instance), rateOfRun(currentPriceMicros(instance)));

/** Costs of the account now; instances that are starting count as running. */
export async function costsOf(db: Db, accountId: string, withoutId = ''): Promise<Cost[]> {
  const starting = (await startingRowsOf(db, accountId)).filter(({ id }) => id !== withoutId).map(instanceFromRow);
  const hourly = starting.filter(({ spec }) => isHourly(spec.chargeMode));
  return [...(await chargedCostsOf(db, accountId)), ...hourly.map(costOfRun)];
}

/** With this many hours of its own price, an instance is not what ends the money. */
const AMPLE_HOURS = 100n;

/** Refuses a launch or start when the money would end too soon with it, once it is paid ahead. */
export async function refuseUnpaidRun(
  tx: Db,
  { isBilled, clock, moneyRules }: Charging,
  instance: Instance,
  what: 'launch' | 'start',
): Promise<void> {
  const { ownerId, spec } = instance;
  const isByHour = isHourly(spec.chargeMode);
  if (!isBilled || (what === 'start' && !isByHour)) return;
  await refuseOverBudget(tx, instance, clock.now());
  const wallet = (await lockWallets(tx, [ownerId])).get(ownerId);
  if (!wallet) return;
  const [nowMs, purchase] = [clock.now(), purchaseOf(instance)];
  const availableMicros = availableFor(wallet.purse, purchase, nowMs);
  if (what === 'launch' && isByHour) refuseWithoutHour(availableMicros, instance, 'launch');
  const { step } = await moneyStateOf(tx, ownerId);
  if (!isAtLeast(step, 'noStarts') && availableMicros >= currentPriceMicros(instance) * AMPLE_HOURS) return;
  const others = await costsOf(tx, ownerId, instance.id);
  const costs = isByHour ? [...others, costOfRun(instance)] : others;
  const leftMs = lastingMs(wallet.purse, costs, nowMs);
  const thresholdMs = startThreshold(moneyRules, step);
  if (leftMs >= thresholdMs) return;
  const rate = burnRate(costs);
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
    const { name, labelKey, labelValue, hardMicros, month, byAdministrator } = budget;
    const scope = labelKey === '' ? '' : ` for ${labelKey}=${labelValue}`;
    const remedy = byAdministrator === 1 ? 'ask an administrator to raise it' : 'raise or delete it';
    throw new Refusal(
      'no_balance',
      `budget ${JSON.stringify(name)} of $${toDollars(hardMicros ?? 0)} a month${scope} is reached in ${month}; ${remedy}, or wait for the next month`,
    );
  }
}

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
