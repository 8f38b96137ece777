/** History of prices. */
import { z } from 'zod';
import { prices, scheduledFor, storagePrices } from './catalog-admin.ts';
import { answer, flag, id, pagerAnswer, pagerRequest, request, text, textOrNull, unixMs } from '../common.ts';
import { adminRoute, operatorReadRoute, readRoute } from '../route.ts';

export const priceListRequest = request('ListPricesRequest', {
  pager: pagerRequest.describe('Page to return'),
  regionId: id.describe('Only prices of this region').optional(),
  instanceTypeId: id.describe('Only prices of this instance type').optional(),
});

const fields = {
  fromUnixMs: unixMs('Time from which the prices count'),
  regionId: text('Region ID'),
  instanceTypeId: textOrNull('Instance type ID; null: prices of storage'),
  prices: prices.nullable().describe('Prices of the instance type; null: prices of storage'),
  storagePrices: storagePrices.nullable().describe('Prices of storage; null: prices of an instance type'),
  scheduled: flag('Whether the prices are set for `fromUnixMs` and do not count yet'),
};
const pager = pagerAnswer.describe('Page and length of the list');

const change = answer('PriceChange', fields, 'Prices from a moment on');
export const priceListAnswer = answer('ListPricesAnswer', {
  changes: z.array(change).describe('Changes of prices, newest first'),
  pager,
});

const byAccountId = textOrNull('ID of the administrator; null: prices that Berth set');
const managedChange = answer('ManagedPriceChange', { ...fields, byAccountId }, 'Prices from a moment on');
export const priceChangesAnswer = answer('ListPriceChangesAnswer', {
  changes: z.array(managedChange).describe('Changes of prices, newest first'),
  pager,
});
export const priceWithdrawRequest = request('WithdrawPricesRequest', {
  regionId: id.describe('Region ID'),
  instanceTypeId: id.describe('Instance type ID; without it the prices of storage').optional(),
  fromUnixMs: scheduledFor.describe('Time for which the prices are scheduled, Unix milliseconds'),
});
export const priceWithdrawAnswer = answer('WithdrawPricesAnswer', {
  change: managedChange.describe('Prices that were scheduled'),
});

export const priceRoutes = {
  listPrices: readRoute('/price/list', priceListRequest, priceListAnswer, {
    compressed: true,
    summary: 'List the prices of instance types and storage since they were first offered, newest first',
  }),
  listPriceChanges: operatorReadRoute('/admin/price/list', priceListRequest, priceChangesAnswer, {
    compressed: true,
    summary: 'List changes of prices with the administrator who made each, newest first (operators)',
  }),
  withdrawPrices: adminRoute('/admin/price/withdraw', priceWithdrawRequest, priceWithdrawAnswer, {
    idempotent: true,
    summary: 'Withdraw scheduled prices of an instance type or of storage (administrators)',
  }),
} as const;
