/** What an error of either engine means. Nothing outside this room knows their codes. */

const has = <K extends string>(value: unknown, key: K): value is Record<K, unknown> =>
  typeof value === 'object' && value !== null && key in value;

/** SQLite's extended result code; undefined for anything that is not an error of SQLite. */
export const errcodeOf = (error: unknown): number | undefined =>
  has(error, 'errcode') && typeof error.errcode === 'number' ? error.errcode : undefined;

/** PostgreSQL's SQLSTATE; undefined for anything else. */
export const sqlstateOf = (error: unknown): string | undefined =>
  has(error, 'code') && typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined;

const SQLITE_CONSTRAINT_PRIMARYKEY = 1555;
const SQLITE_CONSTRAINT_UNIQUE = 2067;
const SQLITE_CONSTRAINT_FOREIGNKEY = 787;

/**
 * A row with this key is there already. On PostgreSQL a transaction is over once a statement of it failed: ask outside of
 * `store.write`, or better use `on conflict do nothing` and look at what was returned.
 */
export const isUniqueViolation = (error: unknown): boolean => {
  const code = errcodeOf(error);
  return code === SQLITE_CONSTRAINT_UNIQUE || code === SQLITE_CONSTRAINT_PRIMARYKEY || sqlstateOf(error) === '23505';
};

/** A row that this one names is not there, or this one is still named by another. */
export const isForeignKeyViolation = (error: unknown): boolean =>
  errcodeOf(error) === SQLITE_CONSTRAINT_FOREIGNKEY || sqlstateOf(error) === '23503';

/** Two transactions got in each other's way: the same work, run again, may pass. */
export const isRetryable = (error: unknown): boolean => {
  const state = sqlstateOf(error);
  return state === '40001' || state === '40P01';
};
