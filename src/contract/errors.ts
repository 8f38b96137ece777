/**
 * Error bodies (docs/interface.md §7 and §10). Clients branch on `X-Error-Code`; the server maps
 * codes to HTTP statuses.
 */
import { z } from 'zod';

/** What `X-Error-Code` can say. */
export const errorCodes = [
  'not_logged_in',
  'forbidden',
  'field_missing',
  'field_type',
  'field_value',
  'body_not_json',
  'body_too_large',
  'not_found',
  'method_not_allowed',
  'name_taken',
  'in_use',
  'not_now',
  'unsupported',
  'no_capacity',
  'over_quota',
  'no_balance',
  'volume_full',
  'precondition_failed',
  'range_not_satisfiable',
  'idempotency_mismatch',
  'too_many_requests',
  'unavailable',
  'internal',
] as const;
export type ErrorCode = (typeof errorCodes)[number];

export const NOT_LOGGED_IN_CODE = -1;

export const plainError = z.object({ message: z.string() });

/** On every route that needs a login: the token is missing, bad or expired. */
export const notLoggedInError = z.object({ code: z.literal(NOT_LOGGED_IN_CODE), message: z.string() });

/** RFC 9457; `message` says the same as `detail`, so that one reader serves both kinds of route. */
export const problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.number().int(),
  detail: z.string(),
  message: z.string(),
  code: z.literal(NOT_LOGGED_IN_CODE).optional(),
});
export type Problem = z.output<typeof problem>;

export const PROBLEM_TYPE = 'application/problem+json';
