/** Rows of the history of prices. */
import * as price from './price.ts';
import { adminRoute, operatorReadRoute, readRoute } from './route.ts';

export const priceRoutes = {
  listPrices: readRoute('/price/list', price.priceListRequest, price.priceListAnswer, {
    compressed: true,
    summary: 'List the prices of instance types and storage since they were first offered, newest first',
  }),
  listPriceChanges: operatorReadRoute('/admin/price/list', price.priceListRequest, price.priceChangesAnswer, {
    compressed: true,
    summary: 'List changes of prices with the administrator who made each, newest first (operators)',
  }),
  withdrawPrices: adminRoute('/admin/price/withdraw', price.priceWithdrawRequest, price.priceWithdrawAnswer, {
    idempotent: true,
    summary: 'Withdraw scheduled prices of an instance type or of storage (administrators)',
  }),
} as const;
