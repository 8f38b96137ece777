/** Rows of the administration of accounts. */
import * as account from './managed-account.ts';
import { adminReadRoute, adminRoute } from './route.ts';

export const accountAdminRoutes = {
  listAccounts: adminReadRoute('/admin/account/list', account.accountListRequest, account.accountListAnswer, {
    summary: 'List accounts, newest first (administrators)',
  }),
  getAccount: adminReadRoute('/admin/account/get', account.accountIdBody, account.accountGetAnswer, {
    summary: 'Return an account with its instances, volumes, snapshots and images (administrators)',
  }),
  inviteAccount: adminRoute('/admin/account/invite', account.inviteRequest, account.passwordLinkAnswer, {
    idempotent: true,
    summary: 'Create an account and return a link, good once, where the person sets the password (administrators)',
  }),
  resetAccountPassword: adminRoute('/admin/account/resetPassword', account.accountIdBody, account.passwordLinkAnswer, {
    idempotent: true,
    summary: 'Return a link, good once, where the person sets a new password (administrators)',
  }),
  disableAccount: adminRoute('/admin/account/disable', account.accountDisableRequest, account.accountAnswer, {
    idempotent: true,
    summary: 'Disable an account: end its logins and connections, and stop its instances (administrators)',
  }),
  enableAccount: adminRoute('/admin/account/enable', account.accountIdBody, account.accountAnswer, {
    idempotent: true,
    summary: 'Enable a disabled account; its instances stay stopped (administrators)',
  }),
  setAccountRole: adminRoute('/admin/account/role', account.accountRoleRequest, account.accountAnswer, {
    idempotent: true,
    summary: 'Change the role of an account; one administrator remains (administrators)',
  }),
  deleteAccount: adminRoute('/admin/account/delete', account.accountDeleteRequest, account.accountDeleteAnswer, {
    idempotent: true,
    summary: 'Disable an account now, and delete it with all it has after a grace time (administrators)',
  }),
  restoreAccount: adminRoute('/admin/account/restore', account.accountIdBody, account.accountAnswer, {
    idempotent: true,
    summary: 'Take back the deletion of an account within the grace time (administrators)',
  }),
} as const;
