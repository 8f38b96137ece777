/** Budgets of accounts, and how long an account's money lasts. */
import { z } from 'zod';
import { fromDollars, toDollars } from '../../domain/regions/catalog.ts';
import { moneySteps } from '../../domain/money/money-ladder.ts';
import { MAX_CREDIT_DOLLARS } from '../../domain/money/purse.ts';
import { labelKeyPattern, labelValuePattern } from '../../domain/kernel/resource-labels.ts';
import {
  answer,
  decimal,
  empty,
  flag,
  integerOrNull,
  label,
  oneOfText,
  plainText,
  request,
  text,
  timeZoneName,
  unixMs,
} from '../common.ts';
import { adminReadRoute, adminRoute, jsonRoute, readRoute } from '../route.ts';

const dollars = z
  .number()
  .refine((amount) => amount >= 0 && amount <= MAX_CREDIT_DOLLARS && toDollars(fromDollars(amount)) === amount, {
    error: `must be 0 to ${MAX_CREDIT_DOLLARS} dollars, with at most 6 decimals`,
  })
  .meta({ minimum: 0, maximum: MAX_CREDIT_DOLLARS });

const name = label(64).describe('Name; an existing budget of this name is replaced');

const labelOf = z
  .strictObject({
    key: z
      .string()
      .regex(new RegExp(labelKeyPattern), { error: 'must be the key of a label, such as "team"' })
      .describe('Key'),
    value: z
      .string()
      .regex(new RegExp(labelValuePattern), { error: 'must be the value of a label, such as "physics"' })
      .describe('Value'),
  })
  .describe('Label of the instances and volumes that count');

const budgetFields = {
  name,
  scope: request('BudgetScopeRequest', { label: labelOf }, 'What a budget counts')
    .describe('What counts; left out: all of the account')
    .optional(),
  soft: dollars.describe('Dollars a month at which the account gets an event').optional(),
  hard: dollars.describe('Dollars a month at which launches and starts are refused, and instances stopped').optional(),
  timeZone: timeZoneName.describe('IANA time zone of the months; left out: that of the region').optional(),
};
const username = plainText(320).describe('Name or email address of the account');

export const budgetSetRequest = request('SetBudgetRequest', budgetFields);
export const budgetNameRequest = request('DeleteBudgetRequest', { name: name.describe('Name of the budget') });
export const accountBudgetSetRequest = request('SetAccountBudgetRequest', { username, ...budgetFields });
export const accountBudgetListRequest = request('ListAccountBudgetsRequest', { username });
export const accountBudgetNameRequest = request('DeleteAccountBudgetRequest', {
  username,
  name: name.describe('Name of the budget'),
});

const shown = {
  name: text('Name'),
  scope: answer('BudgetScope', {
    label: answer('BudgetLabel', { key: text('Key'), value: text('Value') }).describe('Label of what counts'),
  })
    .nullable()
    .describe('What counts; null: all of the account'),
  soft: z.number().nullable().describe('Dollars a month at which the account gets an event; null: no such limit'),
  hard: z
    .number()
    .nullable()
    .describe('Dollars a month at which launches and starts are refused, and instances stopped; null: no such limit'),
  timeZone: text('Time zone of the months'),
  setBy: oneOfText(['owner', 'administrator'], 'Who set it, and may change it'),
};

export const budgetAnswer = answer('SetBudgetAnswer', { budget: answer('Budget', shown).describe('The budget') });

const listed = answer(
  'ListedBudget',
  {
    ...shown,
    month: text('Current month'),
    spent: decimal('Dollars spent in the month: charges and purchases, less refunds'),
    forecast: decimal('Dollars at the end of the month if nothing changes'),
    softReached: flag('Whether `soft` is reached'),
    hardReached: flag('Whether `hard` is reached'),
  },
  'Budget with what was spent of it',
);
export const budgetListAnswer = answer('ListBudgetsAnswer', {
  budgets: z.array(listed).describe('Budgets, oldest first, those of administrators too'),
});
export const budgetNameAnswer = answer('DeleteBudgetAnswer', { name: text('Name of the deleted budget') });

export const forecastAnswer = answer('ForecastAnswer', {
  available: decimal('Dollars that can be spent: vouchers, credits, cash and overdraft'),
  burnRate: decimal('Dollars per hour at the moment'),
  lastsUntilUnixMs: integerOrNull('Time until which the money lasts, Unix milliseconds; null: nothing costs money'),
  step: oneOfText(moneySteps, 'Step of an account whose money ends'),
  archiveAtUnixMs: integerOrNull('Time of the archiving, Unix milliseconds; null: none'),
  deleteAtUnixMs: integerOrNull('Time of the deletion, Unix milliseconds; null: none'),
  steps: z
    .array(
      answer(
        'MoneyStep',
        { step: oneOfText(moneySteps, 'Step'), atUnixMs: unixMs('Its time if nothing changes') },
        'Step that follows when money ends',
      ),
    )
    .describe('Steps that follow, the next one first; empty while nothing costs money'),
  month: text('Current month'),
  timeZone: text('Time zone of the month'),
  monthToDate: decimal('Dollars spent in the month'),
  monthForecast: decimal('Dollars at the end of the month if nothing changes'),
});

export const budgetRoutes = {
  forecast: readRoute('/billing/forecast', empty, forecastAnswer, {
    summary: "Return how long the account's money lasts, what follows, and what the month will cost",
  }),
  setBudget: jsonRoute('/billing/budget/set', budgetSetRequest, budgetAnswer, {
    idempotent: true,
    summary: 'Create or replace a budget of the account, in dollars per calendar month',
  }),
  listBudgets: readRoute('/billing/budget/list', empty, budgetListAnswer, {
    summary: 'List the budgets of the account, with what was spent this month and a forecast',
  }),
  deleteBudget: jsonRoute('/billing/budget/delete', budgetNameRequest, budgetNameAnswer, {
    idempotent: true,
    summary: 'Delete a budget of the account',
  }),
  setAccountBudget: adminRoute('/admin/account/budget/set', accountBudgetSetRequest, budgetAnswer, {
    idempotent: true,
    summary: 'Create or replace a budget that the owner sees and cannot change (administrators)',
  }),
  listAccountBudgets: adminReadRoute('/admin/account/budget/list', accountBudgetListRequest, budgetListAnswer, {
    summary: 'List the budgets of an account (administrators)',
  }),
  deleteAccountBudget: adminRoute('/admin/account/budget/delete', accountBudgetNameRequest, budgetNameAnswer, {
    idempotent: true,
    summary: 'Delete a budget that an administrator set (administrators)',
  }),
} as const;
