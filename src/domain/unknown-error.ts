/** Reads a caught error, which may be any value. */

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Error code of Node, such as `ENOENT`. */
export const errorCode = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : undefined;

export const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
