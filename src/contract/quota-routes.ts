/** Rows of quotas. */
import { empty } from './common.ts';
import * as quota from './quota.ts';
import { adminReadRoute, adminRoute, readRoute } from './route.ts';

export const quotaRoutes = {
  listQuotas: readRoute('/user/quota/get', empty, quota.quotasAnswer, {
    summary: "Return the account's quotas: limit and use of each",
  }),
  getQuotas: adminReadRoute('/admin/quota/get', quota.quotaGetRequest, quota.quotasAnswer, {
    summary: 'Return the quotas of an account, or the limits of the installation (administrators)',
  }),
  setQuotas: adminRoute('/admin/quota/set', quota.quotaSetRequest, quota.quotasAnswer, {
    idempotent: true,
    summary: 'Set quotas of an account, or of the installation; a lowered one ends nothing (administrators)',
  }),
} as const;
