/** Budgets of an account: its own, and those of administrators, which it sees and cannot change. */
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { fromDollars, toDollars } from '../../domain/regions/catalog.ts';
import { HOUR_MS } from '../../domain/kernel/durations.ts';
import {
  burnRate,
  comingSteps,
  lastingMs,
  lastsUntilMs,
  type ComingStep,
  type Cost,
  type MoneyStep,
} from '../../domain/money/money-ladder.ts';
import { grantedMicros, spendableCash } from '../../domain/money/purse.ts';
import { accountNotFound, Refusal } from '../../domain/kernel/refusal.ts';
import { encodeFlag } from '../../store/db/columns.ts';
import type { Db } from '../../store/store.ts';
import { lockAccount } from '../../store/tables/accounts.ts';
import {
  budgetNamed,
  budgetsOf,
  changeBudget,
  deleteBudget,
  insertBudget,
  subjectsInScope,
  type BudgetRow,
} from '../../store/tables/budgets.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { walletsOf } from '../../store/tables/ledger.ts';
import { chargedCostsOf, moneyStateOf } from '../../store/tables/money-steps.ts';
import { countBudget, countsAlike, NOTHING_SETTLED, type CountedBudget, type Settled } from './count-budget.ts';
import { isReached, noteBudget } from './follow-budgets.ts';
import type { ReportDeps } from './report.ts';
import { costsOf } from './refuse-unpaid.ts';
import { usualTimeZone } from './time-zone.ts';
import type { MeteredDeps } from './metering.ts';
import { accountIdOf, writeAsAdmin } from '../access/ports.ts';
import { type Caller, type Idempotency, type Mutation, idempotentWrite } from '../kernel/ports.ts';

/** Dollars per calendar month. */
export interface BudgetInput {
  name: string;
  scope?: { label: { key: string; value: string } } | undefined;
  soft?: number | undefined;
  hard?: number | undefined;
  timeZone?: string | undefined;
}

export interface Budget {
  name: string;
  scope: { label: { key: string; value: string } } | null;
  soft: number | null;
  hard: number | null;
  timeZone: string;
  setBy: 'owner' | 'administrator';
}

export interface ListedBudget extends Budget {
  month: string;
  spent: number;
  forecast: number;
  softReached: boolean;
  hardReached: boolean;
}

export interface Forecast {
  available: number;
  burnRate: number;
  step: MoneyStep;
  month: string;
  timeZone: string;
  monthToDate: number;
  monthForecast: number;
  /** Null: nothing costs money. */
  lastsUntilUnixMs: number | null;
  archiveAtUnixMs: number | null;
  deleteAtUnixMs: number | null;
  steps: ComingStep[];
}

type Named = { name: string };
type OfAccount<Body> = Body & { username: string };

export interface Budgets {
  set: Mutation<BudgetInput, { budget: Budget }>;
  list(caller: Caller): Promise<{ budgets: ListedBudget[] }>;
  delete: Mutation<Named, Named>;
  setFor: Mutation<OfAccount<BudgetInput>, { budget: Budget }>;
  listFor(username: string): Promise<{ budgets: ListedBudget[] }>;
  deleteFor: Mutation<OfAccount<Named>, Named>;
  forecast(caller: Caller): Promise<Forecast>;
}

/** Limit of an account's own budgets, and of those of administrators. */
export const MAX_BUDGETS = 20;

const micros = (dollars: number | undefined): number | null =>
  dollars === undefined ? null : Number(fromDollars(dollars));
const dollars = (amount: number | null): number | null => (amount === null ? null : toDollars(amount));

const shown = (
  row: Pick<
    BudgetRow,
    'name' | 'labelKey' | 'labelValue' | 'softMicros' | 'hardMicros' | 'timeZone' | 'byAdministrator'
  >,
): Budget => ({
  name: row.name,
  scope: row.labelKey === '' ? null : { label: { key: row.labelKey, value: row.labelValue } },
  soft: dollars(row.softMicros),
  hard: dollars(row.hardMicros),
  timeZone: row.timeZone,
  setBy: row.byAdministrator === 1 ? 'administrator' : 'owner',
});

const budgetNotFound = (name: string): Refusal =>
  new Refusal('not_found', `budget ${JSON.stringify(name)} not found; POST /api/billing/budget/list lists the budgets`);

type CountedInput = Settled & Pick<BudgetRow, 'labelKey' | 'labelValue' | 'timeZone'>;

interface Writer {
  accountId: string;
  byAdministrator: boolean;
  nowMs: number;
  randomUuid: () => string;
}

async function writeBudget(
  tx: Db,
  { accountId, byAdministrator, nowMs, randomUuid }: Writer,
  { name, soft, hard }: BudgetInput,
  counted: CountedInput,
): Promise<{ budget: Budget }> {
  const before = await budgetNamed(tx, accountId, name);
  if (before) refuseOthers(before, byAdministrator);
  else await refuseTooMany(tx, accountId, byAdministrator);
  const fields = {
    ...counted,
    name,
    softMicros: micros(soft),
    hardMicros: micros(hard),
    byAdministrator: encodeFlag(byAdministrator),
    softReached: encodeFlag(false),
    hardReached: encodeFlag(false),
  };
  if (before) await changeBudget(tx, before.id, fields);
  else await insertBudget(tx, { ...fields, id: randomUuid(), accountId, createdAtMs: nowMs });
  const budget = shown(fields);
  await appendEvent(tx, { accountId, atMs: nowMs, kind: 'billing.budgetSet', subjectId: accountId, data: budget });
  return { budget };
}

async function removeBudget(
  tx: Db,
  { accountId, byAdministrator, nowMs }: Omit<Writer, 'randomUuid'>,
  name: string,
): Promise<Named> {
  const before = await budgetNamed(tx, accountId, name);
  if (!before) throw budgetNotFound(name);
  refuseOthers(before, byAdministrator);
  await deleteBudget(tx, before.id);
  await appendEvent(tx, {
    accountId,
    atMs: nowMs,
    kind: 'billing.budgetDeleted',
    subjectId: accountId,
    data: { name },
  });
  return { name };
}

export function makeBudgets(deps: MeteredDeps & ReportDeps): Budgets {
  const { store, time, metering, readCatalog, randomUuid } = deps;
  const { clock } = metering;

  /** Sums the settled hours before `write`. A budget that is reached counts for the next launch. */
  async function setCounted<Answer>(
    accountId: string,
    { name, scope, timeZone }: BudgetInput,
    write: (counted: CountedInput) => Promise<Answer>,
  ): Promise<Answer> {
    const counts = {
      labelKey: scope?.label.key ?? '',
      labelValue: scope?.label.value ?? '',
      timeZone: timeZone ?? (await usualTimeZone(readCatalog)),
    };
    const before = await budgetNamed(store.read, accountId, name);
    const settled = before && countsAlike(before, counts) ? before : NOTHING_SETTLED;
    const budget = { ...settled, ...counts, accountId };
    const { month, settledUntilMs, settledMicros } = await countBudget(store.read, budget, clock.now());
    const answer = await write({ ...counts, month, settledUntilMs, settledMicros });
    const row = await budgetNamed(store.read, accountId, name);
    if (row) await noteBudget({ store, time, nowMs: clock.now() }, row);
    return answer;
  }

  /** `idempotentWrite` under the lock of the account. */
  const asOwner = <Answer>(
    { accountId }: Caller,
    idempotency: Idempotency | null,
    fn: (tx: Db, by: Writer) => Promise<Answer>,
  ): Promise<Answer> =>
    idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      await lockAccount(tx, accountId);
      return fn(tx, { accountId, byAdministrator: false, nowMs, randomUuid });
    });

  const costsIn = async (row: BudgetRow): Promise<Cost[]> => {
    const subjects = await subjectsInScope(store.read, row);
    return chargedCostsOf(store.read, row.accountId, (id) => subjects === null || subjects.has(id));
  };

  async function listed(row: BudgetRow): Promise<ListedBudget> {
    const nowMs = clock.now();
    const { month, untilMs, spentMicros } = await countBudget(store.read, row, nowMs);
    return {
      ...shown(row),
      month,
      spent: toDollars(spentMicros),
      forecast: toDollars(BigInt(spentMicros) + restOf(await costsIn(row), untilMs - nowMs)),
      softReached: isReached(row.softMicros, spentMicros),
      hardReached: isReached(row.hardMicros, spentMicros),
    };
  }

  async function list(accountId: string): Promise<{ budgets: ListedBudget[] }> {
    const budgets: ListedBudget[] = [];
    for (const row of await budgetsOf(store.read, accountId)) budgets.push(await listed(row));
    return { budgets };
  }

  return {
    forecast: makeForecast(deps),
    async set(caller, body, idempotency) {
      refuseWrongLimits(body);
      return setCounted(caller.accountId, body, (counted) =>
        asOwner(caller, idempotency, (tx, by) => writeBudget(tx, by, body, counted)),
      );
    },
    list: ({ accountId }) => list(accountId),
    delete: (caller, { name }, idempotency) => asOwner(caller, idempotency, (tx, by) => removeBudget(tx, by, name)),

    async setFor(caller, { username, ...body }, idempotency) {
      refuseWrongLimits(body);
      const accountId = await accountIdOf(store.read, username);
      return setCounted(accountId, body, (counted) =>
        writeAsAdmin(deps, caller, accountId, idempotency, ({ tx, nowMs }) =>
          writeBudget(tx, { accountId, byAdministrator: true, nowMs, randomUuid }, body, counted),
        ),
      );
    },
    listFor: async (username) => list(await accountIdOf(store.read, username)),
    async deleteFor(caller, { username, name }, idempotency) {
      const accountId = await accountIdOf(store.read, username);
      return writeAsAdmin(deps, caller, accountId, idempotency, ({ tx, nowMs }) =>
        removeBudget(tx, { accountId, byAdministrator: true, nowMs }, name),
      );
    },
  };
}

/** Accounts whose counted hours are kept for the next forecast. */
const FORECASTS_KEPT = 1_000;

function makeForecast({ store, metering, readCatalog }: MeteredDeps & ReportDeps): Budgets['forecast'] {
  const settled = makeBoundedMap<Settled>({ maxEntries: FORECASTS_KEPT });

  async function countedMonth(accountId: string, nowMs: number): Promise<CountedBudget & { timeZone: string }> {
    const timeZone = await usualTimeZone(readCatalog);
    const key = `${accountId} ${timeZone}`;
    const before = settled.get(key) ?? NOTHING_SETTLED;
    const counted = await countBudget(
      store.read,
      { accountId, labelKey: '', labelValue: '', timeZone, ...before },
      nowMs,
    );
    const { month, settledUntilMs, settledMicros } = counted;
    settled.set(key, { month, settledUntilMs, settledMicros });
    return { ...counted, timeZone };
  }

  return async ({ accountId }) => {
    const nowMs = metering.clock.now();
    const { purse } = (await walletsOf(store.read, [accountId])).get(accountId) ?? {};
    if (!purse) throw accountNotFound(accountId);
    const costs = metering.isBilled ? await costsOf(store.read, accountId) : [];
    const leftMs = lastingMs(purse, costs, nowMs);
    const { month, timeZone, spentMicros, untilMs: endsAtMs } = await countedMonth(accountId, nowMs);
    const state = await moneyStateOf(store.read, accountId);
    const untilMs = lastsUntilMs(leftMs, nowMs);
    const { step, archiveAtMs, deleteAtMs } = state;
    return {
      available: toDollars(
        spendableCash(purse) + grantedMicros(purse, 'voucher', nowMs) + grantedMicros(purse, 'credit', nowMs),
      ),
      burnRate: toDollars(burnRate(costs)),
      step,
      month,
      timeZone,
      monthToDate: toDollars(spentMicros),
      monthForecast: toDollars(BigInt(spentMicros) + restOf(costs, endsAtMs - nowMs)),
      lastsUntilUnixMs: untilMs,
      archiveAtUnixMs: archiveAtMs,
      deleteAtUnixMs: deleteAtMs,
      steps: comingSteps(state, untilMs, metering.moneyRules),
    };
  };
}

const restOf = (costs: readonly Cost[], ms: number): bigint => (burnRate(costs) * BigInt(ms)) / BigInt(HOUR_MS);

function refuseWrongLimits({ soft, hard }: BudgetInput): void {
  if (soft === undefined && hard === undefined)
    throw new Refusal('field_missing', 'field "soft" is not set; or send "hard", or both');
  if (soft !== undefined && hard !== undefined && soft > hard)
    throw new Refusal(
      'field_value',
      `field "soft" is ${soft}, more than "hard", which is ${hard}: it must be at most that, because a hard limit stops all before`,
    );
}

function refuseOthers({ byAdministrator, name }: BudgetRow, isAdministrator: boolean): void {
  if ((byAdministrator === 1) === isAdministrator) return;
  throw new Refusal(
    'name_taken',
    byAdministrator === 1
      ? `budget ${JSON.stringify(name)} was set by an administrator, and only administrators change it; choose another name`
      : `the account has a budget ${JSON.stringify(name)} of its own; choose another name`,
  );
}

async function refuseTooMany(tx: Db, accountId: string, byAdministrator: boolean): Promise<void> {
  const rows = await budgetsOf(tx, accountId);
  const count = rows.filter((row) => (row.byAdministrator === 1) === byAdministrator).length;
  if (count < MAX_BUDGETS) return;
  throw new Refusal(
    'over_quota',
    `the account has ${count} budgets, the most there may be; delete one, or change one by its name`,
  );
}
