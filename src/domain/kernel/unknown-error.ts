/** Reads a caught error, which may be any value. */

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Message of the error and of its cause. */
export const reasonText = (error: unknown): string =>
  error instanceof Error && error.cause !== undefined
    ? `${error.message} (${errorText(error.cause)})`
    : errorText(error);

/** Error code of Node, such as `ENOENT`. */
export const errorCode = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : undefined;

export const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
