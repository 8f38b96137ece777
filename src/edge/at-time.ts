/** Longest delay of a timer of Node. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls `run` once the wall clock reaches the time. Returns the cancel function. */
export function atTime(atMs: number, run: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const leftMs = atMs - Date.now();
    timer = setTimeout(leftMs > MAX_TIMER_MS ? arm : run, Math.min(Math.max(leftMs, 0), MAX_TIMER_MS)).unref();
  };
  arm();
  return () => clearTimeout(timer);
}
