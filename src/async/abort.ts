/** Reacts to an `AbortSignal`: subscribe, race an operation, add a deadline. */
import type { Writable } from 'node:stream';

/** Calls `fn` at abort, or now if the signal is aborted. Returns the unsubscribe function. */
export function onAbort(signal: AbortSignal, fn: () => void): () => void {
  if (signal.aborted) {
    fn();
    return () => {};
  }
  signal.addEventListener('abort', fn, { once: true });
  return () => signal.removeEventListener('abort', fn);
}

/** Settles like `operation`; an abort rejects with `errorOf(signal)`. The operation continues. */
export async function raceAbort<T>(
  operation: Promise<T>,
  signal: AbortSignal,
  errorOf: (signal: AbortSignal) => unknown = ({ reason }) => reason,
): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const unsubscribe = onAbort(signal, () => aborted.reject(errorOf(signal)));
  try {
    return await Promise.race([aborted.promise, operation]);
  } finally {
    unsubscribe();
  }
}

/** Resolves once the signal aborts. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => void onAbort(signal, resolve));

/** A signal that aborts with `signal`, and after `ms` at the latest. */
export const withDeadline = (
  signal: AbortSignal,
  ms: number,
  deadline: (ms: number) => AbortSignal = (delayMs) => AbortSignal.timeout(delayMs),
): AbortSignal => AbortSignal.any([signal, deadline(ms)]);

/** Resolves once the stream accepts more data, or is closed. */
export function drained(stream: Writable): Promise<void> {
  if (!stream.writableNeedDrain || stream.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
