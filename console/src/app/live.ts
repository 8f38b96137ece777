/** Keeps the answers of the API current by the account's events; nothing is polled. */
import { useSyncExternalStore } from 'react';
import { followEvents, type FeedMessage } from './event-feed.ts';
import { queryClient } from './query-client.ts';
import { leadToLogin } from './session.ts';

/** First members of the query keys that an event of a subject makes stale. */
const staleBySubject: Readonly<Record<string, readonly string[]>> = {
  account: ['session', 'accounts', 'logins'],
  apiKey: ['apiKeys'],
  billing: ['billing'],
  disk: ['instances', 'volumes'],
  egress: ['egress'],
  image: ['images', 'managedImages'],
  instance: ['instances', 'catalog', 'volumes', 'billing'],
  instanceType: ['catalog', 'types'],
  prices: ['catalog', 'prices', 'types'],
  quota: ['quotas'],
  region: ['regions', 'catalog', 'managedRegions'],
  registry: ['registries'],
  snapshot: ['snapshots', 'volumes', 'billing'],
  sshKey: ['sshKeys'],
  stray: ['orphans'],
  template: ['templates'],
  volume: ['volumes', 'billing'],
  webhook: ['webhooks'],
};

/** The first event refreshes at once; those that follow within this time are one refresh. */
const GATHER_MS = 60;

let lostAtMs: number | null = null;
const watchers = new Set<() => void>();
const stale = new Set<string>();
let timer: number | undefined;
let refreshedAtMs = 0;

function refresh(): void {
  timer = undefined;
  refreshedAtMs = Date.now();
  const roots = new Set(stale);
  stale.clear();
  void queryClient.invalidateQueries({
    predicate: ({ queryKey: [root] }) => roots.has('*') || (typeof root === 'string' && roots.has(root)),
  });
}

function makeStale(roots: readonly string[]): void {
  for (const root of roots) stale.add(root);
  timer ??= window.setTimeout(refresh, Math.max(0, refreshedAtMs + GATHER_MS - Date.now()));
}

function take(message: FeedMessage): void {
  if (message.type === 'loggedOut') return leadToLogin();
  if (message.type === 'connection') {
    lostAtMs = message.lostAtMs;
    for (const watcher of watchers) watcher();
    return;
  }
  if (message.type === 'missed') return makeStale(['*']);
  makeStale(staleBySubject[message.event.kind.split('.')[0] ?? ''] ?? ['*']);
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
