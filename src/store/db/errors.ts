/** Meaning of errors. No other module knows SQLite's result codes or PostgreSQL's SQLSTATEs. */
import { errorCode, errorText } from '../../domain/kernel/unknown-error.ts';

const has = <K extends string>(value: unknown, key: K): value is Record<K, unknown> =>
  typeof value === 'object' && value !== null && key in value;

export const errcodeOf = (error: unknown): number | undefined =>
  has(error, 'errcode') && typeof error.errcode === 'number' ? error.errcode : undefined;

export const sqlstateOf = (error: unknown): string | undefined =>
  has(error, 'code') && typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : undefined;

const SQLITE_CONSTRAINT_PRIMARYKEY = 1555;
const SQLITE_CONSTRAINT_UNIQUE = 2067;
const SQLITE_CONSTRAINT_FOREIGNKEY = 787;

/** Unique violation. On PostgreSQL it ends the transaction: in a `write`, use `on conflict`. */
export const isUniqueViolation = (error: unknown): boolean => {
  const code = errcodeOf(error);
  return code === SQLITE_CONSTRAINT_UNIQUE || code === SQLITE_CONSTRAINT_PRIMARYKEY || sqlstateOf(error) === '23505';
};

export const isForeignKeyViolation = (error: unknown): boolean =>
  errcodeOf(error) === SQLITE_CONSTRAINT_FOREIGNKEY || sqlstateOf(error) === '23503';

const SQLITE_FULL = 13;
/** The index of the write-ahead log cannot grow. Loses nothing, unlike a failed sync. */
const SQLITE_IOERR_SHMSIZE = 4874;
const DISK_FULL = '53100';

/** No space is left for a write, which may succeed later. */
export const isStorageFull = (error: unknown): boolean => {
  const code = errcodeOf(error);
  return (
    (code !== undefined && ((code & 0xff) === SQLITE_FULL || code === SQLITE_IOERR_SHMSIZE)) ||
    sqlstateOf(error) === DISK_FULL ||
    errorCode(error) === 'ENOSPC'
  );
};

/** Connection ended, or server became a standby: the work may succeed later. */
export const isLostConnection = (error: unknown): boolean =>
  /^(?:08|57P0[1-3]|25006)/.test(sqlstateOf(error) ?? '') ||
  ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(String(errorCode(error))) ||
  /^Connection terminated|not queryable/.test(errorText(error));

/** Serialization failure or deadlock: the same work may succeed when run again. */
export const isRetryable = (error: unknown): boolean => {
  const state = sqlstateOf(error);
  return state === '40001' || state === '40P01';
};
