/** The deed, or the signal's reason once that aborts first: whoever waits for other hands must not be held by them. The deed goes on. */
export async function raced<T>(deed: Promise<T>, signal: AbortSignal): Promise<T> {
  let leave = () => {};
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason);
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
  });
  try {
    return await Promise.race([left, deed]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
