/**
 * All routes, for a gateway whose API is away. Changes during a snapshot are sent after the
 * snapshot.
 */
import { retry } from '../../async/retry.ts';
import { activeRowsAmong, activeInstanceRows } from '../../store/tables/instance-queries.ts';
import type { Store } from '../../store/store.ts';
import { routeOf } from './routes.ts';
import type { Log } from '../base/log.ts';
import type { Time } from '../base/time.ts';
import type { RouteTable, RouteUpdate } from './gateway-types.ts';

const PAGE = 1_000;
const RETRY_MS = 1_000;

export interface PublishedRoutes extends RouteTable {
  changed(instanceId: string): void;
}

interface Deps {
  store: Pick<Store, 'read'>;
  time: Pick<Time, 'sleep'>;
  log: Log;
}

export function makeRouteTable({ store, time, log }: Deps): PublishedRoutes {
  const followers = new Set<(id: string) => void>();

  async function sendSnapshot(send: (update: RouteUpdate) => void, onlyRunning: boolean): Promise<void> {
    for (let afterId = ''; ;) {
      const rows = await activeInstanceRows(store.read, { afterId, limit: PAGE, onlyRunning });
      const isLast = rows.length < PAGE;
      send({ snapshot: isLast ? 'last' : 'part', routes: rows.map(routeOf), gone: [] });
      if (isLast) return;
      afterId = rows.at(-1)?.id ?? '';
    }
  }

  async function sendChanges(ids: readonly string[], send: (update: RouteUpdate) => void): Promise<void> {
    const routes = (await activeRowsAmong(store.read, ids)).map(routeOf);
    const activeIds = new Set<string>(routes.map(({ instanceId }) => instanceId));
    send({ snapshot: null, routes, gone: ids.filter((id) => !activeIds.has(id)) });
  }

  const follow: RouteTable['follow'] = async (send, signal, { onlyRunning } = { onlyRunning: false }) => {
    const waiting = new Set<string>();
    let wake = (): void => {};
    const onChange = (id: string): void => {
      waiting.add(id);
      wake();
    };
    followers.add(onChange);
    signal.addEventListener('abort', () => wake(), { once: true });
    const publish = async (): Promise<void> => {
      waiting.clear();
      await sendSnapshot(send, onlyRunning);
      while (!signal.aborted) {
        const ids = [...waiting];
        waiting.clear();
        if (ids.length > 0) await sendChanges(ids, send);
        if (waiting.size === 0 && !signal.aborted) await new Promise<void>((resolve) => (wake = resolve));
      }
    };
    try {
      await retry(publish, {
        signal,
        firstMs: RETRY_MS,
        sleep: (ms, aborted) => time.sleep(ms, aborted),
        onError: (error) =>
          log.warn({ err: error }, 'the routes could not be read for the gateway; they are read again'),
      });
    } finally {
      followers.delete(onChange);
    }
  };

  return {
    follow,
    changed(id) {
      for (const onChange of followers) onChange(id);
    },
  };
}
