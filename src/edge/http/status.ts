/** Maps error codes to HTTP statuses (docs/interface.md §10, errors). */
import type { ErrorCode } from '../../contract/common.ts';

/** `title` is the RFC 9457 summary, fixed for each code. */
export const errorKinds = {
  not_logged_in: { status: 401, title: 'Not logged in' },
  forbidden: { status: 403, title: 'Not allowed' },
  field_missing: { status: 400, title: 'A required field is not set' },
  field_type: { status: 400, title: 'A field has the wrong type' },
  field_value: { status: 400, title: 'A field has a value that is not allowed' },
  body_not_json: { status: 400, title: 'The body is not valid JSON' },
  body_too_large: { status: 413, title: 'The body is too large' },
  not_found: { status: 404, title: 'Not found' },
  bad_request: { status: 400, title: 'This is not valid HTTP' },
  method_not_allowed: { status: 405, title: 'The path has other methods' },
  request_timeout: { status: 408, title: 'The request took too long to arrive' },
  name_taken: { status: 409, title: 'The name is taken' },
  in_use: { status: 409, title: 'Still in use' },
  not_now: { status: 409, title: 'Not possible in the present state' },
  unsupported: { status: 400, title: 'The region does not support this' },
  no_capacity: { status: 409, title: 'No capacity is left' },
  over_quota: { status: 403, title: 'Over quota' },
  no_balance: { status: 402, title: 'Not enough balance' },
  volume_full: { status: 507, title: 'The volume is full' },
  precondition_failed: { status: 412, title: 'A condition of the request does not hold' },
  range_not_satisfiable: { status: 416, title: 'The range is outside of the file' },
  expectation_failed: { status: 417, title: 'The expectation cannot be met' },
  misdirected: { status: 421, title: 'The server does not answer for this host' },
  idempotency_mismatch: { status: 422, title: 'The idempotency key was used with another request' },
  too_many_requests: { status: 429, title: 'Too many requests' },
  headers_too_large: { status: 431, title: 'The headers are too large' },
  unavailable: { status: 503, title: 'Not available now' },
  internal: { status: 500, title: 'Internal server error' },
} as const satisfies Record<ErrorCode, { status: number; title: string }>;
