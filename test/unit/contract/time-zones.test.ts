import { expect, test } from 'vitest';
import { statementQuery, statementRequest, usageRequest } from '../../../src/contract/money/billing.ts';
import { accountBudgetSetRequest, budgetSetRequest } from '../../../src/contract/money/budget.ts';
import { offPeak } from '../../../src/contract/regions/catalog-admin.ts';

const month = '2026-11';
const budget = { name: 'all', soft: 5 };
const windows = [{ days: ['mon'], start: '22:00', end: '08:00' }];
const requests = {
  statement: (timeZone: string) => statementRequest.parse({ month, timeZone }),
  'file of a statement': (timeZone: string) => statementQuery.parse({ month, timeZone }),
  usage: (timeZone: string) => usageRequest.parse({ ...range, timeZone }),
  budget: (timeZone: string) => budgetSetRequest.parse({ ...budget, timeZone }),
  'budget of an account': (timeZone: string) => accountBudgetSetRequest.parse({ ...budget, username: 'ada', timeZone }),
  'off-peak windows': (timeZone: string) => offPeak.parse({ windows, timeZone }),
};
const range = { pager: { currentPage: 1, pageSize: 10 }, fromUnixMs: 0, untilUnixMs: 1, by: 'day' };

test.each(Object.entries(requests))('%s: a time zone passes validation in one spelling', (_, parse) => {
  for (const sent of ['Asia/Kolkata', 'asia/KOLKATA', 'Asia/Calcutta', 'aSIA/cALCUTTA'])
    expect(parse(sent).timeZone).toBe('Asia/Kolkata');
});
