/** `code` and `message` are for the caller; `detail` is only logged. */
export const refusalCodes = [
  'not_logged_in', // missing, invalid or expired token, or wrong password
  'forbidden',
  'field_missing',
  'field_type',
  'field_value',
  'body_not_json',
  'body_too_large',
  'not_found',
  'name_taken',
  'in_use',
  'not_now',
  'unsupported',
  'no_capacity',
  'over_quota',
  'no_balance',
  'volume_full',
  'storage_full', // the disk of the database
  'precondition_failed',
  'range_not_satisfiable',
  'idempotency_mismatch', // same key, another body
  'too_many_requests',
  'unavailable', // outage of the server or engine
] as const;

export type RefusalCode = (typeof refusalCodes)[number];

/** `code`: the password was right. `setUp`: the role asks for a factor that the account lacks. */
export type SecondFactorHint = 'code' | 'setUp';

export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: RefusalCode;
  readonly detail: unknown;
  /** Absent when waiting does not help. */
  readonly retryAfterS: number | undefined;
  /** Remedy in ASCII, where the interface fixes the message. */
  readonly hint: string | undefined;
  /** Stored row, for a stale version. */
  readonly current: object | undefined;
  readonly secondFactor: SecondFactorHint | undefined;

  constructor(
    code: RefusalCode,
    message: string,
    options: {
      detail?: unknown;
      retryAfterS?: number;
      hint?: string;
      current?: object;
      secondFactor?: SecondFactorHint;
    } = {},
  ) {
    super(message);
    this.code = code;
    this.detail = options.detail;
    this.retryAfterS = options.retryAfterS;
    this.hint = options.hint;
    this.current = options.current;
    this.secondFactor = options.secondFactor;
  }
}

export const volumeNotFound = (id: string): Refusal =>
  new Refusal('not_found', `volume ${id} not found; POST /api/storage/volume/list lists yours`);

export const regionNotFound = (id: string): Refusal =>
  new Refusal('not_found', `region ${id} not found; POST /api/region/list lists the regions`);

export const regionRetired = (name: string): Refusal =>
  new Refusal(
    'not_found',
    `region ${name} is retired and takes no launches and volumes; POST /api/region/list lists the regions`,
  );

export const passwordLinkEnded = (): Refusal =>
  new Refusal(
    'not_found',
    'this link was used, replaced or has expired: ask an administrator for another, unless you have set your password with it',
  );

export const storageFull = ({
  goesOn = 'reads go on',
  detail,
}: { goesOn?: string; detail?: unknown } = {}): Refusal => {
  const message = `the disk of Berth's database is full, so this was not stored; ${goesOn}. Free or add space, or ask the operator`;
  return new Refusal('storage_full', message, { detail, retryAfterS: 60 });
};

/** The text of `docs/interface.md`. */
export const instanceNotFound = (): Refusal => new Refusal('not_found', 'ent: instance not found');

export const accountNotFound = (account: string): Refusal =>
  new Refusal(
    'not_found',
    `account ${JSON.stringify(account)} not found; administrators find the accounts, with ID, name and email address, by POST /api/admin/account/list`,
  );

export const disabledOwner = (): Refusal =>
  new Refusal('forbidden', 'the account is disabled, so its instances do not start; an administrator can enable it');
