/** Rows of budgets and of the forecast. */
import * as budget from './budget.ts';
import { empty } from './common.ts';
import { adminReadRoute, adminRoute, jsonRoute, readRoute } from './route.ts';

export const budgetRoutes = {
  forecast: readRoute('/billing/forecast', empty, budget.forecastAnswer, {
    summary: "Return how long the account's money lasts, what follows, and what the month will cost",
  }),
  setBudget: jsonRoute('/billing/budget/set', budget.budgetSetRequest, budget.budgetAnswer, {
    idempotent: true,
    summary: 'Create or replace a budget of the account, in dollars per calendar month',
  }),
  listBudgets: readRoute('/billing/budget/list', empty, budget.budgetListAnswer, {
    summary: 'List the budgets of the account, with what was spent this month and a forecast',
  }),
  deleteBudget: jsonRoute('/billing/budget/delete', budget.budgetNameRequest, budget.budgetNameAnswer, {
    idempotent: true,
    summary: 'Delete a budget of the account',
  }),
  setAccountBudget: adminRoute('/admin/account/budget/set', budget.accountBudgetSetRequest, budget.budgetAnswer, {
    idempotent: true,
    summary: 'Create or replace a budget that the owner sees and cannot change (administrators)',
  }),
  listAccountBudgets: adminReadRoute(
    '/admin/account/budget/list',
    budget.accountBudgetListRequest,
    budget.budgetListAnswer,
    { summary: 'List the budgets of an account (administrators)' },
  ),
  deleteAccountBudget: adminRoute(
    '/admin/account/budget/delete',
    budget.accountBudgetNameRequest,
    budget.budgetNameAnswer,
    { idempotent: true, summary: 'Delete a budget that an administrator set (administrators)' },
  ),
} as const;
