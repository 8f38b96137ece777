/** Which answers of the API the account's events make stale. */
import type { FeedEvent } from './event-feed.ts';

type QueryKey = readonly unknown[];

/** First members of the keys, by the subject of the event; first those of the subject itself. */
const rootsBySubject: Readonly<Record<string, readonly string[]>> = {
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

/** Subjects whose answers about one have its id as the third member of their keys. */
const keyedById = new Set(['instance', 'volume']);
const id = /^(notebook-)?[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/** Most events of an instance are a step of its way, which changes neither costs nor capacity. */
function rootsOf({ kind, data }: FeedEvent, subject: string): readonly string[] {
  if (kind === 'instance.observed') return 'rate' in data ? ['instances', 'catalog', 'billing'] : ['instances'];
  return rootsBySubject[subject] ?? ['*'];
}

export interface StaleQueries {
  /** Null: events were missed. */
  add(event: FeedEvent | null): void;
  /** Tells whether a query is stale by what was added, and begins again. */
  take(): (queryKey: QueryKey) => boolean;
}

export function makeStaleQueries(): StaleQueries {
  /** Ids that changed, by root; null: any. */
  let changed = new Map<string, Set<string> | null>();
  return {
    add(event) {
      if (event === null) return void changed.set('*', null);
      const subject = event.kind.split('.')[0] ?? '';
      for (const [at, root] of rootsOf(event, subject).entries()) {
        const ids = changed.get(root);
        if (at > 0 || !keyedById.has(subject)) changed.set(root, null);
        else if (ids !== null) changed.set(root, (ids ?? new Set()).add(event.subjectId));
      }
    },
    take() {
      const taken = changed;
      changed = new Map();
      return ([root, , key]) => {
        if (taken.has('*')) return true;
        const ids = typeof root === 'string' ? taken.get(root) : undefined;
        if (ids === undefined || ids === null) return ids === null;
        return typeof key !== 'string' || !id.test(key) || ids.has(key);
      };
    },
  };
}
