/** Rows of the caller's books, and of those of an account for administrators. */
import * as billing from './billing.ts';
import { adminReadRoute, readRoute } from './route.ts';

export const billingRoutes = {
  listEntries: readRoute('/billing/entries', billing.entriesRequest, billing.entriesAnswer, {
    compressed: true,
    summary: "List the entries of the caller's ledger, newest first, with the events behind charges",
  }),
  listAccountEntries: adminReadRoute('/admin/account/entries', billing.accountEntriesRequest, billing.entriesAnswer, {
    compressed: true,
    summary: "List the entries of an account's ledger, newest first (administrators)",
  }),
  listUsagePeriods: readRoute('/billing/periods', billing.periodsRequest, billing.periodsAnswer, {
    compressed: true,
    summary: "List the caller's usage periods with prices, free ones too, newest first",
  }),
  usage: readRoute('/billing/usage', billing.usageRequest, billing.usageAnswer, {
    compressed: true,
    summary: "Return time and cost of the caller's usage by hour, day, week or month",
  }),
  statement: readRoute('/billing/statement', billing.statementRequest, billing.statementAnswer, {
    compressed: true,
    summary: 'Return the statement of a month: balances, payments, charges by resource, free time',
  }),
} as const;
