/**
 * Steps of an account whose money ends (`docs/reference/billing.md`). A step is stricter than those
 * before it. Archiving and deletion wait for dates that are written with the stop.
 */
import { HOUR_MS, DAY_MS } from '../kernel/durations.ts';
import { availableFor, type Purchase, type Purse } from './purse.ts';
import { STORAGE_UNIT_MS, type Priced } from './meter.ts';
import type { Micros } from '../regions/catalog.ts';

export const moneySteps = ['none', 'forecast', 'warn', 'noStarts', 'stop', 'archive', 'delete'] as const;
export type MoneyStep = (typeof moneySteps)[number];

export const isAtLeast = (step: MoneyStep, other: MoneyStep): boolean =>
  moneySteps.indexOf(step) >= moneySteps.indexOf(other);

export interface MoneyRules {
  forecastMs: number;
  warnMs: number;
  noStartsMs: number;
  /** After the stop; null: never. */
  archiveMs: number | null;
  deleteMs: number | null;
}

export const defaultMoneyRules: MoneyRules = {
  forecastMs: 72 * HOUR_MS,
  warnMs: 24 * HOUR_MS,
  noStartsMs: HOUR_MS,
  archiveMs: 7 * DAY_MS,
  deleteMs: 30 * DAY_MS,
};

export interface MoneyState {
  step: MoneyStep;
  /** Set with the stop. */
  archiveAtMs: number | null;
  deleteAtMs: number | null;
  deleteWarnedAtMs: number | null;
}

export const withMoney: MoneyState = { step: 'none', archiveAtMs: null, deleteAtMs: null, deleteWarnedAtMs: null };

/** Cost of resources in `STORAGE_UNIT_MS`, which is exact for all units. */
export interface Cost {
  purchase: Purchase;
  micros: Micros;
}

export const costOf = (purchase: Purchase, { priceMicros, quantity, unitMs }: Priced): Cost => ({
  purchase,
  micros: (priceMicros * BigInt(quantity) * BigInt(STORAGE_UNIT_MS)) / BigInt(unitMs),
});

const sum = (amounts: readonly Micros[]): Micros => amounts.reduce((total, amount) => total + amount, 0n);

/** Micro-dollars per hour, rounded down. */
export const burnRate = (costs: readonly Cost[]): Micros =>
  (sum(costs.map(({ micros }) => micros)) * BigInt(HOUR_MS)) / BigInt(STORAGE_UNIT_MS);

const keyOf = ({ regionId, instanceTypeId, meter }: Purchase): string => `${meter} ${regionId} ${instanceTypeId}`;

/** Costs of equal purchases as one. */
export function joinCosts(costs: readonly Cost[]): Cost[] {
  const joined = new Map<string, Cost>();
  for (const { purchase, micros } of costs) {
    const key = keyOf(purchase);
    joined.set(key, { purchase, micros: (joined.get(key)?.micros ?? 0n) + micros });
  }
  return [...joined.values()];
}

const lasts = (availableMicros: Micros, perUnit: Micros): number =>
  Number((availableMicros * BigInt(STORAGE_UNIT_MS)) / perUnit);

/**
 * How long the purse pays all costs; `Infinity` without any, 0 once it has nothing for one of them.
 * A voucher counts for what its scope fits.
 */
export function lastingMs(purse: Purse, costs: readonly Cost[], atMs: number): number {
  const priced = joinCosts(costs).filter(({ micros }) => micros > 0n);
  if (priced.length === 0) return Infinity;
  const cash = { ...purse, grants: [] };
  const fitting = purse.grants.filter((grant) =>
    priced.some(
      ({ purchase }) => availableFor({ ...cash, cashMicros: cash.floorMicros, grants: [grant] }, purchase, atMs) > 0n,
    ),
  );
  const [first] = priced;
  const all =
    sum(fitting.map(({ leftMicros }) => leftMicros)) + (first ? availableFor(cash, first.purchase, atMs) : 0n);
  return Math.min(
    lasts(all, sum(priced.map(({ micros }) => micros))),
    ...priced.map(({ purchase, micros }) => lasts(availableFor(purse, purchase, atMs), micros)),
  );
}

const LAST_DATE_MS = 8_640_000_000_000_000;

/** Time until which the money lasts, at most the last date; null: nothing costs money. */
export const lastsUntilMs = (leftMs: number, nowMs: number): number | null =>
  leftMs === Infinity ? null : Math.min(LAST_DATE_MS, Math.round(nowMs + leftMs));

/** A step ends only at this much more than its threshold, so an account at one does not flap. */
const EASE = 1.1;

export const startThreshold = ({ noStartsMs }: MoneyRules, step: MoneyStep): number =>
  isAtLeast(step, 'noStarts') ? noStartsMs * EASE : noStartsMs;

/** The state after `lastingMs` of money was found. Moves by one step towards deletion. */
export function nextMoneyState(
  state: MoneyState,
  { leftMs, nowMs }: { leftMs: number; nowMs: number },
  rules: MoneyRules,
): MoneyState {
  if (leftMs > 0) return { ...withMoney, step: stepWithMoney(state.step, leftMs, rules) };
  const { step, archiveAtMs, deleteAtMs, deleteWarnedAtMs } = state;
  if (!isAtLeast(step, 'stop')) {
    const after = (ms: number | null): number | null => (ms === null ? null : nowMs + ms);
    return {
      step: 'stop',
      archiveAtMs: after(rules.archiveMs),
      deleteAtMs: after(rules.deleteMs),
      deleteWarnedAtMs: null,
    };
  }
  if (step === 'stop' && archiveAtMs !== null && nowMs >= archiveAtMs) return { ...state, step: 'archive' };
  if (step === 'delete' || deleteAtMs === null) return state;
  if (step === 'stop' && archiveAtMs !== null) return state;
  if (deleteWarnedAtMs === null)
    return nowMs < deleteAtMs - DAY_MS
      ? state
      : { ...state, deleteAtMs: Math.max(deleteAtMs, nowMs + DAY_MS), deleteWarnedAtMs: nowMs };
  return nowMs >= deleteAtMs ? { ...state, step: 'delete' } : state;
}

function stepWithMoney(step: MoneyStep, leftMs: number, rules: MoneyRules): MoneyStep {
  const { forecastMs, warnMs, noStartsMs } = rules;
  const limits = { noStarts: noStartsMs, warn: warnMs, forecast: forecastMs } as const;
  // Money after a stop ends all of its steps.
  const from = isAtLeast(step, 'stop') ? 'none' : step;
  const names = ['noStarts', 'warn', 'forecast'] as const;
  return names.find((name) => leftMs < limits[name] * (isAtLeast(from, name) ? EASE : 1)) ?? 'none';
}

export interface ComingStep {
  step: MoneyStep;
  atUnixMs: number;
}

/** Steps that follow, with their times, if nothing changes. Empty while nothing costs money. */
export function comingSteps(
  { step, archiveAtMs, deleteAtMs }: MoneyState,
  untilMs: number | null,
  { forecastMs, warnMs, noStartsMs, archiveMs, deleteMs }: MoneyRules,
): ComingStep[] {
  const isStopped = isAtLeast(step, 'stop');
  if (!isStopped && untilMs === null) return [];
  const stopMs = untilMs ?? 0;
  const after = (ms: number | null): number | null => (ms === null ? null : stopMs + ms);
  const times: readonly [MoneyStep, number | null][] = isStopped
    ? [
        ['archive', archiveAtMs],
        ['delete', deleteAtMs],
      ]
    : [
        ['forecast', stopMs - forecastMs],
        ['warn', stopMs - warnMs],
        ['noStarts', stopMs - noStartsMs],
        ['stop', stopMs],
        ['archive', after(archiveMs)],
        ['delete', after(deleteMs)],
      ];
  return times.flatMap(([name, atMs]) =>
    atMs === null || isAtLeast(step, name) ? [] : [{ step: name, atUnixMs: Math.min(LAST_DATE_MS, atMs) }],
  );
}
