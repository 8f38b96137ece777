/** Error bodies (docs/interface.md §7 and §10). Clients branch on `X-Error-Code`. */
import { z } from 'zod';
import { refusalCodes } from '../domain/refusal.ts';
import { integer, named, text } from './common.ts';

/** Values of `X-Error-Code`. The HTTP edge alone issues the last two. */
export const errorCodes = [...refusalCodes, 'method_not_allowed', 'internal'] as const;
export type ErrorCode = (typeof errorCodes)[number];

export const NOT_LOGGED_IN_CODE = -1;

const notLoggedInCode = z.literal(NOT_LOGGED_IN_CODE).describe('Always -1');
export const plainError = named('Error', z.object({ message: text('Cause and remedy') }));

/** 401 on routes that need a login. */
export const notLoggedInError = named(
  'NotLoggedIn',
  z.object({ code: notLoggedInCode, message: text('Cause and remedy') }),
);

export const problem = named(
  'Problem',
  z.object({
    type: text('`urn:berth:problem:` and the error code'),
    title: text('Summary of the kind of problem'),
    status: integer('HTTP status'),
    detail: text('Cause and remedy'),
    message: text('Same as `detail`'),
    code: notLoggedInCode.optional().describe('-1 for a missing or expired login'),
  }),
  'Problem details, RFC 9457',
);
export type Problem = z.output<typeof problem>;

export const PROBLEM_TYPE = 'application/problem+json';
