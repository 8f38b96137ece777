/** Keeps the answers of the API current by the account's events; nothing is polled. */
import { useSyncExternalStore } from 'react';
import { followEvents, type FeedEvent, type FeedMessage } from './event-feed.ts';
import { queryClient } from './query-client.ts';
import { leadToLogin } from './session.ts';
import { makeStaleQueries } from './stale-queries.ts';

/** The first event refreshes at once; those that follow within this time are one refresh. */
const GATHER_MS = 60;

let lostAtMs: number | null = null;
const watchers = new Set<() => void>();
const stale = makeStaleQueries();
let timer: number | undefined;
let refreshedAtMs = 0;

function refresh(): void {
  timer = undefined;
  refreshedAtMs = Date.now();
  const isStale = stale.take();
  void queryClient.invalidateQueries({ predicate: ({ queryKey }) => isStale(queryKey) });
}

function makeStale(event: FeedEvent | null): void {
  stale.add(event);
  timer ??= window.setTimeout(refresh, Math.max(0, refreshedAtMs + GATHER_MS - Date.now()));
}

function take(message: FeedMessage): void {
  if (message.type === 'loggedOut') return leadToLogin();
  if (message.type === 'connection') {
    lostAtMs = message.lostAtMs;
    for (const watcher of watchers) watcher();
    return;
  }
  makeStale(message.type === 'missed' ? null : message.event);
}

const ACCOUNT_KEY = 'berth.account';

/** After a login of another account in this browser, the page shows what is not its own. */
function reloadForOtherAccount(username: string): void {
  localStorage.setItem(ACCOUNT_KEY, username);
  window.addEventListener('storage', ({ key, newValue }) => {
    if (key === ACCOUNT_KEY && newValue !== username) window.location.reload();
  });
}

/** Begins to follow the events of the account; once a page. */
export function startLive(username: string): void {
  reloadForOtherAccount(username);
  if (!('SharedWorker' in window)) return void followEvents(take);
  const worker = new SharedWorker(new URL('event-worker.ts', import.meta.url), {
    type: 'module',
    name: `events of ${username}`,
  });
  worker.port.addEventListener('message', ({ data }: MessageEvent<FeedMessage>) => take(data));
  worker.port.start();
  window.addEventListener('pagehide', () => worker.port.postMessage('closes'));
  // A page from the back-forward cache has no port any more.
  window.addEventListener('pageshow', ({ persisted }) => persisted && window.location.reload());
}

/** Time since which live updates are lost; null: they come. */
export const useLostSince = (): number | null =>
  useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => lostAtMs,
  );
