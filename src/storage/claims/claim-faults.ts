import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from '../../kubernetes/api-error.ts';
import { StorageFault } from '../contract.ts';

/** Translates errors of the API server. A refusal of Berth names the missing right. */
export function asStorageFault(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  switch (error.failure) {
    case 'quota':
      return new StorageFault('full', 'the storage of the region has too little free space', error);
    case 'forbidden':
    case 'unauthorized':
    case 'denied':
      // A log shows causes behind the message: the error itself would say it twice.
      return new StorageFault('away', error.message, error.cause);
    case 'invalid':
    case 'expired':
      return error;
    default:
      return new StorageFault('away', 'the storage of the region does not answer', error);
  }
}

export async function withStorageFaults<T>(verb: () => Promise<T>): Promise<T> {
  try {
    return await verb();
  } catch (error) {
    throw asStorageFault(error);
  }
}

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;

/** Asks until the answer is not undefined. */
export async function poll<T>(ask: () => Promise<T | undefined>, signal: AbortSignal): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 1.5)) {
    signal.throwIfAborted();
    const answer = await ask();
    if (answer !== undefined) return answer;
    await delay(pauseMs, undefined, { signal }).catch(() => {});
  }
}
