/** Meaning of either engine's errors. No other module knows their codes. */

const has = <K extends string>(value: unknown, key: K): value is Record<K, unknown> =>
  typeof value === 'object' && value !== null && key in value;

/** SQLite's extended result code; undefined for other errors. */
export const errcodeOf = (error: unknown): number | undefined =>
  has(error, 'errcode') && typeof error.errcode === 'number' ? error.errcode : undefined;

/** PostgreSQL's SQLSTATE; undefined for other errors. */
export const sqlstateOf = (error: unknown): string | undefined =>
  has(error, 'code') && typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined;

const SQLITE_CONSTRAINT_PRIMARYKEY = 1555;
const SQLITE_CONSTRAINT_UNIQUE = 2067;
const SQLITE_CONSTRAINT_FOREIGNKEY = 787;

/**
 * Unique violation. On PostgreSQL a failed statement ends the transaction: check outside of
 * `store.write`, or use `on conflict do nothing` and look at the returned rows.
 */
export const isUniqueViolation = (error: unknown): boolean => {
  const code = errcodeOf(error);
  return code === SQLITE_CONSTRAINT_UNIQUE || code === SQLITE_CONSTRAINT_PRIMARYKEY || sqlstateOf(error) === '23505';
};

/** Foreign-key violation. */
export const isForeignKeyViolation = (error: unknown): boolean =>
  errcodeOf(error) === SQLITE_CONSTRAINT_FOREIGNKEY || sqlstateOf(error) === '23503';

/** Serialization failure or deadlock: the same work may succeed when run again. */
export const isRetryable = (error: unknown): boolean => {
  const state = sqlstateOf(error);
  return state === '40001' || state === '40P01';
};
