/** Whether an error of a body on its way says no more than that its client went away. */
export const clientLeft = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && CODES.has(error.code);

const CODES: ReadonlySet<unknown> = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE']);
