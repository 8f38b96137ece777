/** Metering, charging, budgets, and the books. */
import type { MoneyRules } from '../../domain/money/money-ladder.ts';
import type { StripeMode } from '../../domain/money/stripe-mode.ts';
import { setCharging } from '../../store/tables/usage-periods.ts';
import { task, type Kernel, type StopAutomatically, type Task } from '../kernel/ports.ts';
import { makeBooks, type Books } from './books.ts';
import { makeBudgets, type Budgets } from './budgets.ts';
import { makeChargeUsage } from './charge-usage.ts';
import { makeCredits, type Credits } from './credits.ts';
import { makeChargeExports, type ChargeExports } from './focus-charges.ts';
import { makeFollowBudgets } from './follow-budgets.ts';
import { makeFollowMoney } from './follow-money.ts';
import { makeGpuUse, type GpuUse } from './gpu-use.ts';
import { makeMetering } from './metering.ts';
import { makePayments, type Payments } from './payments.ts';
import { makeRenewPaidTime } from './renew-paid-time.ts';
import { makeStatements, type Statements } from './statement.ts';
import { makeReadStripe } from './stripe.ts';
import { makeUsage, type Usage } from './usage-report.ts';

export interface MoneyOptions {
  /** Signing secret of Stripe's webhook; absent: payments are off. */
  stripeSecret?: string | undefined;
  stripeMode?: StripeMode;
  /** Whether usage is charged; default yes. */
  isBilled?: boolean;
  moneyRules?: Partial<MoneyRules>;
}

/** Books each minute within seconds of its end. */
export const CHARGE_INTERVAL_MS = 10_000;

export interface MoneyUseCases {
  books: Books;
  chargeExports: ChargeExports;
  payments: Payments;
  usage: Usage;
  gpuUse: GpuUse;
  statements: Statements;
  budgets: Budgets;
  credits: Credits;
}

export function wireMoney(parts: Kernel & MoneyOptions) {
  const { stripeSecret, stripeMode, isBilled = true } = parts;
  const metering = makeMetering({ ...parts, isBilled });
  const deps = { ...parts, metering };
  const readStripe = stripeSecret === undefined ? undefined : makeReadStripe(stripeSecret, stripeMode);
  const useCases: MoneyUseCases = {
    books: makeBooks(deps),
    chargeExports: makeChargeExports(deps),
    payments: makePayments({ ...deps, readStripe }),
    usage: makeUsage(deps),
    gpuUse: makeGpuUse(deps),
    statements: makeStatements(deps),
    budgets: makeBudgets(deps),
    credits: makeCredits(deps),
  };
  const tasks = (needs: { stopAutomatically: StopAutomatically }): Task[] => [
    task('charge usage', CHARGE_INTERVAL_MS, makeChargeUsage(deps)),
    task('follow money', CHARGE_INTERVAL_MS, makeFollowMoney(deps)),
    task('follow budgets', CHARGE_INTERVAL_MS, makeFollowBudgets({ ...deps, ...needs })),
  ];
  const dueActs = (needs: { stopAutomatically: StopAutomatically }) => ({
    paidTime: makeRenewPaidTime({ ...deps, ...needs }),
  });
  const start = async (): Promise<void> => {
    await parts.store.write((tx) => setCharging(tx, isBilled, metering.clock.now()));
    await metering.takeOver(parts.store.read);
  };
  return { parts: { metering }, useCases, tasks, dueActs, start };
}

export type MoneyParts = ReturnType<typeof wireMoney>['parts'];
