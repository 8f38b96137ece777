/** Rows of money that administrators give and take back. */
import * as credit from './credit.ts';
import { pageRequest } from './instance.ts';
import { adminRoute, readRoute } from './route.ts';

export const creditRoutes = {
  creditAccount: adminRoute('/admin/account/credit', credit.creditRequest, credit.creditAnswer, {
    idempotent: true,
    summary: 'Give an account cash, a voucher or a credit (administrators)',
  }),
  reverseCredit: adminRoute('/admin/account/credit/reverse', credit.creditReverseRequest, credit.creditReverseAnswer, {
    idempotent: true,
    summary: 'Take back a deposit, or what is left of a voucher or credit, once (administrators)',
  }),
  setOverdraft: adminRoute('/admin/account/overdraft', credit.overdraftRequest, credit.overdraftAnswer, {
    idempotent: true,
    summary: 'Set by how much the balance of an account may fall below 0 (administrators)',
  }),
  listGrants: readRoute('/billing/grants', pageRequest, credit.grantListAnswer, {
    summary: "List the account's vouchers and credits, newest first, with what is left",
  }),
} as const;
