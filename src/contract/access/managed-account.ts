/** Administration of accounts. */
import { z } from 'zod';
import { accountStates } from '../../domain/access/account-state.ts';
import { instanceStatuses } from '../../domain/compute/instance-states.ts';
import { roles } from '../../domain/access/roles.ts';
import { secondFactors } from '../../domain/access/second-factor.ts';
import { accountSort } from '../list-filters.ts';
import { email, firstBalance, username } from './account.ts';
import {
  answer,
  decimal,
  id,
  integer,
  integerOrNull,
  oneOfText,
  pagerAnswer,
  pagerRequest,
  plainText,
  request,
  text,
  unixMs,
} from '../common.ts';
import { adminReadRoute, adminRoute } from '../route.ts';

const MAX_REASON = 500;
const accountId = id.describe('Account ID');
const role = z.enum(roles);
const listed = (what: string) => `${what}, at most 500; the counts are complete`;

const account = answer(
  'Account',
  {
    accountId: text('Account ID'),
    username: text('Name of the account'),
    email: text('Email address; empty if none is set'),
    role: oneOfText(roles, 'Role'),
    secondFactors: z.array(oneOfText(secondFactors, 'Kind of factor')).describe('Second factors of the account'),
    state: oneOfText(accountStates, 'State'),
    reason: text('Why an administrator disabled the account; may be empty'),
    createdAtUnixMs: unixMs('Creation time'),
    disabledAtUnixMs: integerOrNull('Time of the disable, Unix milliseconds; null unless disabled'),
    deleteAtUnixMs: integerOrNull('Time of the deletion, Unix milliseconds; null unless the account is being deleted'),
    balance: decimal('Balance in dollars'),
    vouchers: decimal('Dollars left of vouchers'),
    credits: decimal('Dollars left of credits'),
    overdraft: decimal('Dollars by which the balance may fall below 0'),
    instances: integer('Listed instances'),
    volumes: integer('Listed volumes'),
  },
  'Account as administrators see it',
);

export const accountListRequest = request('ListAccountsRequest', {
  pager: pagerRequest.describe('Page to return'),
  search: plainText(320)
    .describe('Only accounts whose name or email contains this text, in any letter case')
    .optional(),
  role: role.describe('Only accounts of this role').optional(),
  state: z.enum(accountStates).describe('Only accounts in this state').optional(),
  sort: accountSort,
});
export const accountListAnswer = answer('ListAccountsAnswer', {
  accounts: z.array(account).describe('Accounts, newest first'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

const sized = { id: text('ID'), name: text('Name'), sizeGB: integer('Size in GB') };
export const holdings = answer('AccountHoldings', {
  counts: answer('AccountHoldingCounts', {
    instances: integer('Instances that are not released'),
    volumes: integer('Volumes'),
    volumeGB: integer('Sum of the sizes of the volumes in GB'),
    snapshots: integer('Snapshots'),
    images: integer('Images of the account'),
  }).describe('How many of each'),
  instances: z
    .array(
      answer('AccountInstance', {
        id: text('Instance ID'),
        name: text('Name'),
        status: oneOfText(instanceStatuses, 'Status'),
      }),
    )
    .describe(listed('Instances')),
  volumes: z.array(answer('AccountVolume', sized)).describe(listed('Volumes')),
  snapshots: z.array(answer('AccountSnapshot', sized)).describe(listed('Snapshots')),
  images: z
    .array(answer('AccountImage', { id: text('Image ID'), name: text('Name') }))
    .describe(listed('Images of the account')),
});

export const accountIdBody = request('AccountIdRequest', { accountId });
export const accountGetAnswer = answer('GetAccountAnswer', {
  account: account.describe('The account'),
  holdings: holdings.describe('Its resources'),
});
export const accountAnswer = answer('AccountAnswer', { account: account.describe('The account after the change') });
export const accountDisableRequest = request('DisableAccountRequest', {
  accountId,
  reason: plainText(MAX_REASON).describe('Reason, which the owner reads at a login; may be empty').default(''),
});
export const accountRoleRequest = request('AccountRoleRequest', { accountId, role: role.describe('New role') });

export const accountDeleteRequest = request('DeleteAccountRequest', {
  accountId,
  reason: plainText(MAX_REASON).describe('Reason; may be empty').default(''),
});
export const accountDeleteAnswer = answer('DeleteAccountAnswer', {
  account: account.describe('The account, with the time of its deletion'),
  lost: holdings.describe('What is deleted with it'),
});

export const inviteRequest = request('InviteAccountRequest', {
  username: username.describe('Name of the account, for logins'),
  email: email.describe('Email address; Berth sends no mail'),
  role: role.default('user').describe('Role'),
  balance: firstBalance,
});
export const passwordLinkAnswer = answer('PasswordLinkAnswer', {
  accountId: text('Account ID'),
  url: text('Link to the page where the person sets the password; no later answer repeats it'),
  expiresAtUnixMs: unixMs('End of the link'),
});

export const managedAccountRoutes = {
  listAccounts: adminReadRoute('/admin/account/list', accountListRequest, accountListAnswer, {
    summary: 'List accounts, newest first (administrators)',
  }),
  getAccount: adminReadRoute('/admin/account/get', accountIdBody, accountGetAnswer, {
    summary: 'Return an account with its instances, volumes, snapshots and images (administrators)',
  }),
  inviteAccount: adminRoute('/admin/account/invite', inviteRequest, passwordLinkAnswer, {
    idempotent: true,
    summary: 'Create an account and return a link, good once, where the person sets the password (administrators)',
  }),
  resetAccountPassword: adminRoute('/admin/account/resetPassword', accountIdBody, passwordLinkAnswer, {
    idempotent: true,
    summary: 'Return a link, good once, where the person sets a new password (administrators)',
  }),
  disableAccount: adminRoute('/admin/account/disable', accountDisableRequest, accountAnswer, {
    idempotent: true,
    summary: 'Disable an account: end its logins and connections, and stop its instances (administrators)',
  }),
  enableAccount: adminRoute('/admin/account/enable', accountIdBody, accountAnswer, {
    idempotent: true,
    summary: 'Enable a disabled account; its instances stay stopped (administrators)',
  }),
  setAccountRole: adminRoute('/admin/account/role', accountRoleRequest, accountAnswer, {
    idempotent: true,
    summary: 'Change the role of an account; one administrator remains (administrators)',
  }),
  resetSecondFactor: adminRoute('/admin/account/resetSecondFactor', accountIdBody, accountAnswer, {
    idempotent: true,
    summary: 'Remove the second factors of another account, and end its logins (administrators)',
  }),
  deleteAccount: adminRoute('/admin/account/delete', accountDeleteRequest, accountDeleteAnswer, {
    idempotent: true,
    summary: 'Disable an account now, and delete it with all it has after a grace time (administrators)',
  }),
  restoreAccount: adminRoute('/admin/account/restore', accountIdBody, accountAnswer, {
    idempotent: true,
    summary: 'Take back the deletion of an account within the grace time (administrators)',
  }),
} as const;
