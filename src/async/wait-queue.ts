/** A FIFO of callers waiting for a mutex or a semaphore. Taking an entry means calling it. */
export type WaitQueue = Set<() => void>;

export interface WaitOptions {
  /** The error of a caller whose signal aborts while it waits. Default: the signal's reason. */
  abortError?: (signal: AbortSignal) => unknown;
}

export const reasonOf = ({ reason }: AbortSignal): unknown => reason;

/** Resolves when the entry is taken. An abort removes the entry, calls `onLeave` and rejects. */
export function enqueue(
  queue: WaitQueue,
  signal: AbortSignal | undefined,
  { abortError = reasonOf, onLeave = () => {} }: WaitOptions & { onLeave?: () => void },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const grant = (): void => {
      queue.delete(grant);
      signal?.removeEventListener('abort', leave);
      resolve();
    };
    const leave = (): void => {
      queue.delete(grant);
      onLeave();
      if (signal) reject(abortError(signal));
    };
    queue.add(grant);
    signal?.addEventListener('abort', leave, { once: true });
  });
}
