/** Quotas of accounts and of the installation. */
import { z } from 'zod';
import { isQuotaName, MAX_QUOTA, quotaKinds } from '../../domain/access/quota.ts';
import { answer, empty, id, oneOfText, plainText, request, textOrNull, wholeNumber } from '../common.ts';
import { adminReadRoute, adminRoute, readRoute } from '../route.ts';

const MAX_NAMES = 100;
const known = Object.keys(quotaKinds);
const right = `must be one of ${known.join(', ')}, or gpus/ and the name of a GPU type`;

const name = plainText(200)
  .refine(isQuotaName, { error: right })
  .meta({ pattern: `^(?:${known.join('|')}|gpus/.{1,195})$` });

const limits = z
  .record(name, wholeNumber(0, MAX_QUOTA).nullable())
  .refine((given) => Object.keys(given).length <= MAX_NAMES, { error: `must have at most ${MAX_NAMES} members` })
  .meta({ maxProperties: MAX_NAMES });

const account = { accountId: id.describe('Account ID; left out: the limits of the installation').optional() };

export const quotaGetRequest = request('GetQuotasRequest', account);

export const quotaSetRequest = request('SetQuotasRequest', {
  ...account,
  limits: limits.describe('Limits by name; null removes the limit, others stay'),
});

const quota = answer('Quota', {
  name: plainText(200).describe('Name'),
  limit: z.number().nullable().describe('Limit; null: none besides that of all GPUs'),
  from: oneOfText(['account', 'installation', 'built-in'], 'Where the limit is set'),
  used: z.number().nullable().describe('Amount in use; null for the installation, connections and requests'),
});

export const quotasAnswer = answer('QuotasAnswer', {
  accountId: textOrNull('Account ID; null for the installation'),
  quotas: z.array(quota).describe('All quotas'),
});

export const quotaRoutes = {
  listQuotas: readRoute('/user/quota/get', empty, quotasAnswer, {
    summary: "Return the account's quotas: limit and use of each",
  }),
  getQuotas: adminReadRoute('/admin/quota/get', quotaGetRequest, quotasAnswer, {
    summary: 'Return the quotas of an account, or the limits of the installation (administrators)',
  }),
  setQuotas: adminRoute('/admin/quota/set', quotaSetRequest, quotasAnswer, {
    idempotent: true,
    summary: 'Set quotas of an account, or of the installation; a lowered one ends nothing (administrators)',
  }),
} as const;
