/** Money that administrators give and take back, and the vouchers and credits of an account. */
import { z } from 'zod';
import { isMicros } from '../../domain/regions/catalog.ts';
import { meters } from '../../domain/money/meter.ts';
import { creditKinds, grantKinds, MAX_CREDIT_DOLLARS } from '../../domain/money/purse.ts';
import {
  answer,
  decimal,
  id,
  integerOrNull,
  label,
  oneOfText,
  pagerAnswer,
  pageRequest,
  plainText,
  request,
  text,
  textOrNull,
  unixMs,
  wholeNumber,
} from '../common.ts';
import { accountAnswer } from '../access/managed-account.ts';
import { adminRoute, readRoute } from '../route.ts';

const LAST_DATE = Date.UTC(9999, 11, 31);
const dollars = z.number().min(0, { abort: true }).max(MAX_CREDIT_DOLLARS, { abort: true });

const holder = plainText(320).describe('Name or email address of the account');
const reason = label(500).describe('Reason, which the owner reads, too');

const scope = request(
  'VoucherScope',
  {
    regionId: id.describe('Region ID').optional(),
    instanceTypeId: id.describe('Instance type ID').optional(),
    meter: z.enum(meters).describe('Meter').optional(),
  },
  'What a voucher pays: all members that are set must fit',
);

export const creditRequest = request('CreditAccountRequest', {
  username: holder,
  amount: z
    .number()
    .refine((amount) => amount > 0 && amount <= MAX_CREDIT_DOLLARS && isMicros(amount), {
      error: `must be more than 0 and at most ${MAX_CREDIT_DOLLARS} dollars, with at most 6 decimals`,
    })
    .meta({ exclusiveMinimum: 0, maximum: MAX_CREDIT_DOLLARS })
    .describe('Dollars'),
  kind: z.enum(creditKinds).describe('`voucher` and `credit` are spent before `cash`'),
  expiresAt: wholeNumber(0, LAST_DATE)
    .describe('Expiry of a voucher or credit, Unix milliseconds; by default none')
    .optional(),
  scope: scope.describe('What a voucher pays; by default everything').optional(),
  reason,
});

const entry = answer(
  'CreditEntry',
  {
    entryId: text('Entry ID'),
    atUnixMs: unixMs('Time of the entry'),
    kind: oneOfText(['deposit', 'grant', 'reversal'], 'Kind of entry'),
    amount: decimal('Dollars; negative for a reversal'),
    account: oneOfText(creditKinds, 'What the entry changes'),
    grantId: textOrNull('ID of the voucher or credit; null for cash'),
    reversesId: textOrNull('ID of the entry that a reversal takes back; null for others'),
    reason: text('Reason'),
  },
  'Entry of the ledger',
);
export const creditAnswer = answer('CreditAccountAnswer', {
  entry: entry.describe('The entry'),
  grantId: textOrNull('ID of the voucher or credit; null for cash'),
});

export const creditReverseRequest = request('ReverseCreditRequest', {
  entryId: id.describe('ID of the entry of a deposit, voucher or credit'),
  reason,
});
export const creditReverseAnswer = answer('ReverseCreditAnswer', { entry: entry.describe('The reversal') });

export const overdraftRequest = request('OverdraftRequest', {
  username: holder,
  overdraft: dollars
    .refine(isMicros, { error: `must be 0 to ${MAX_CREDIT_DOLLARS} dollars, with at most 6 decimals` })
    .describe('Dollars by which the balance may fall below 0'),
});
export const overdraftAnswer = accountAnswer;

const grant = answer(
  'CreditGrant',
  {
    grantId: text('ID of the voucher or credit'),
    kind: oneOfText(grantKinds, 'Kind; vouchers are spent before credits'),
    amount: decimal('Dollars given'),
    left: decimal('Dollars that can be spent; 0 after the expiry'),
    scope: answer('CreditGrantScope', {
      regionId: textOrNull('Region ID; null: all'),
      instanceTypeId: textOrNull('Instance type ID; null: all, and storage'),
      meter: oneOfText(meters, 'Meter').nullable().describe('Meter; null: all'),
    }).describe('What it pays'),
    expiresAtUnixMs: integerOrNull('Expiry, Unix milliseconds; null: none'),
    createdAtUnixMs: unixMs('Time at which it was given'),
    reason: text('Reason'),
  },
  'Voucher or credit',
);
export const grantListAnswer = answer('ListGrantsAnswer', {
  grants: z.array(grant).describe('Vouchers and credits, newest first, spent and expired ones too'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

export const creditRoutes = {
  creditAccount: adminRoute('/admin/account/credit', creditRequest, creditAnswer, {
    idempotent: true,
    summary: 'Give an account cash, a voucher or a credit (administrators)',
  }),
  reverseCredit: adminRoute('/admin/account/credit/reverse', creditReverseRequest, creditReverseAnswer, {
    idempotent: true,
    summary: 'Take back a deposit, or what is left of a voucher or credit, once (administrators)',
  }),
  setOverdraft: adminRoute('/admin/account/overdraft', overdraftRequest, overdraftAnswer, {
    idempotent: true,
    summary: 'Set by how much the balance of an account may fall below 0 (administrators)',
  }),
  listGrants: readRoute('/billing/grants', pageRequest, grantListAnswer, {
    summary: "List the account's vouchers and credits, newest first, with what is left",
  }),
} as const;
