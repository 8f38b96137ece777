/**
 * A refusal has two faces: `code` and `message` are for the caller and say what was wrong and what would work;
 * `detail` is for the log alone. The HTTP status of a code is chosen in one place, `edge/http/status.ts`.
 */
export const refusalCodes = [
  'not_logged_in', // no, bad or expired token, or a wrong password
  'forbidden', // logged in, but the role does not allow it
  'field_missing', // a required field is not set
  'field_type', // a field has the wrong JSON type
  'field_value', // a field is outside its closed set or bounds
  'body_not_json',
  'body_too_large',
  'not_found', // an id that is unknown or another account's
  'name_taken',
  'in_use', // what is asked to go is still used by something else
  'not_now', // the action is not legal in the present state
  'unsupported', // the region's engine can't do what is asked
  'no_capacity',
  'over_quota',
  'no_balance',
  'volume_full', // a file does not fit
  'precondition_failed', // a condition of the request's header does not hold
  'range_not_satisfiable', // no byte of the range is in the file
  'idempotency_mismatch', // the key was used before with another body
  'too_many_requests',
  'unavailable', // the server or its engine can't answer now; the same request may work later
] as const;

export type RefusalCode = (typeof refusalCodes)[number];

export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RefusalCode;
  readonly detail: unknown;
  /** Seconds after which the same request may succeed; absent when waiting does not help. */
  readonly retryAfterS: number | undefined;

  constructor(code: RefusalCode, message: string, more: { detail?: unknown; retryAfterS?: number } = {}) {
    super(message);
    this.code = code;
    this.detail = more.detail;
    this.retryAfterS = more.retryAfterS;
  }
}

/** Whether it never was, is gone, or is another account's. */
export const volumeNotFound = (id: string): Refusal =>
  new Refusal('not_found', `volume ${id} not found; POST /api/storage/volume/list names yours`);

/** In the words of `interface.md`, whether it never was, is forgotten, or is another account's. */
export const instanceNotFound = (): Refusal => new Refusal('not_found', 'ent: instance not found');
