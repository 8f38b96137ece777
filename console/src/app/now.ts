/** The time, for texts that age. One timer for all, at rest while the page is hidden. */
import { useSyncExternalStore } from 'react';

const TICK_MS = 1_000;
let nowMs = Date.now();
let timer: number | undefined;
const watchers = new Set<() => void>();

function tick(): void {
  if (document.hidden) return;
  nowMs = Date.now();
  for (const watcher of watchers) watcher();
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  timer ??= window.setInterval(tick, TICK_MS);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    window.clearInterval(timer);
    timer = undefined;
  };
}

/** Changes once in `stepMs`. */
export const useNow = (stepMs = TICK_MS): number =>
  useSyncExternalStore(watch, () => Math.floor(nowMs / stepMs) * stepMs);
