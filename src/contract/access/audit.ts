/** The audit log, for administrators. */
import { z } from 'zod';
import { auditCredentials } from '../../domain/access/audit.ts';
import {
  answer,
  flag,
  id,
  integer,
  oneOfText,
  pagerAnswer,
  pagerRequest,
  plainText,
  request,
  text,
  unixMs,
  wholeNumber,
} from '../common.ts';
import { adminReadRoute } from '../route.ts';

const time = (description: string) => wholeNumber(0, Number.MAX_SAFE_INTEGER).describe(description).optional();

export const auditListRequest = request('ListAuditRequest', {
  pager: pagerRequest.describe('Page to return'),
  accountId: id.describe('Only requests of this account').optional(),
  route: plainText(64).describe('Only requests of this route, by its name in the API document').optional(),
  subjectId: id.describe('Only requests about this resource').optional(),
  outcome: plainText(64).describe('Only requests with this outcome: `ok`, or an error code').optional(),
  withoutReads: flag('Leaves out requests that only read, unless they were refused').optional(),
  fromUnixMs: time('Only requests from this time on, Unix milliseconds'),
  toUnixMs: time('Only requests before this time, Unix milliseconds'),
});

const record = answer(
  'AuditRecord',
  {
    position: integer('Position in the log, from 1, without gaps'),
    atUnixMs: unixMs('End of the request'),
    accountId: text('Account of the caller; empty if unknown'),
    username: text('Name of the account at that time; empty if unknown'),
    credential: oneOfText(
      auditCredentials,
      'Kind of credential; `link` is a one-time link, `signature` that of a payment or login provider, `host` a command on the host',
    ),
    credentialId: text('ID of the login or API key, or fingerprint of the ssh key; may be empty'),
    address: text('Address of the client'),
    userAgent: text('First 200 characters of the header User-Agent'),
    route: text(
      'Name of the route, or `loginPage`, `passwordPage`, `registerPage`, `signOn`, `gatewayOpen`, `gatewayWake`, ' +
        '`notebookStop`, `sshLogin`, `backchannelLogout`, `stripePayment`, `hostResetPassword` or `hostResetSecondFactor`',
    ),
    subjectIds: z.array(z.string()).describe('IDs in the request and in its answer'),
    outcome: text('`ok`, or the error code'),
    count: integer('Above 1: so many equal refusals within a minute'),
    requestId: text('Value of X-Request-Id'),
    hash: text('HMAC-SHA-256 over the record and the hash before it, hexadecimal'),
  },
  'Request that changed something, needed a role, or was refused',
);

export const auditListAnswer = answer('ListAuditAnswer', {
  records: z.array(record).describe('Records, newest first'),
  pager: pagerAnswer.describe('Page; `totalEntries` counts at most 10,000'),
});

export const auditRoutes = {
  listAudit: adminReadRoute('/admin/audit/list', auditListRequest, auditListAnswer, {
    compressed: true,
    summary: 'List the audit log: who did what to which resource, with what outcome (administrators)',
  }),
} as const;
