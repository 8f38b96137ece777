/** The system date may be set meanwhile: it is read again after this time. */
const LONGEST_TIMER_MS = 60_000;

/** Calls `run` once the system date reaches the time. Returns the cancel function. */
export function atTime(atMs: number, run: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const leftMs = atMs - Date.now();
    timer = setTimeout(
      () => (Date.now() < atMs ? arm() : run()),
      Math.min(Math.max(leftMs, 0), LONGEST_TIMER_MS),
    ).unref();
  };
  arm();
  return () => clearTimeout(timer);
}
