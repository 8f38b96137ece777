/**
 * All routes, for a gateway whose API is away. Changes during a snapshot are sent after the
 * snapshot.
 */
import { retry } from '../../async/retry.ts';
import { activeRowsAmong, activeInstanceRows } from '../../store/tables/active-rows.ts';
import type { Store } from '../../store/store.ts';
import { routeOf } from './routes.ts';
import type { Log } from '../base/log.ts';
import type { Time } from '../base/time.ts';
import type { RouteTable, RouteUpdate } from './gateway-types.ts';

const PAGE = 1_000;
const ASK_AGAIN_MS = 1_000;

export interface PublishedRoutes extends RouteTable {
  changed(instanceId: string): void;
}

interface Deps {
  store: Pick<Store, 'read'>;
  time: Pick<Time, 'sleep'>;
  log: Log;
}

export function makeRouteTable({ store, time, log }: Deps): PublishedRoutes {
  const changedOf = new Set<(id: string) => void>();

  async function tellAll(tell: (told: RouteUpdate) => void, onlyRunning: boolean): Promise<void> {
    for (let afterId = ''; ;) {
      const rows = await activeInstanceRows(store.read, { afterId, limit: PAGE, onlyRunning });
      const isLast = rows.length < PAGE;
      tell({ snapshot: isLast ? 'last' : 'part', routes: rows.map(routeOf), gone: [] });
      if (isLast) return;
      afterId = rows.at(-1)?.id ?? '';
    }
  }

  async function tellOf(ids: readonly string[], tell: (told: RouteUpdate) => void): Promise<void> {
    const routes = (await activeRowsAmong(store.read, ids)).map(routeOf);
    const there = new Set<string>(routes.map(({ instanceId }) => instanceId));
    tell({ snapshot: null, routes, gone: ids.filter((id) => !there.has(id)) });
  }

  const follow: RouteTable['follow'] = async (tell, signal, { onlyRunning } = { onlyRunning: false }) => {
    const waiting = new Set<string>();
    let wake = (): void => {};
    const note = (id: string): void => {
      waiting.add(id);
      wake();
    };
    changedOf.add(note);
    signal.addEventListener('abort', () => wake(), { once: true });
    const publish = async (): Promise<void> => {
      waiting.clear();
      await tellAll(tell, onlyRunning);
      while (!signal.aborted) {
        const ids = [...waiting];
        waiting.clear();
        if (ids.length > 0) await tellOf(ids, tell);
        if (waiting.size === 0 && !signal.aborted) await new Promise<void>((resolve) => (wake = resolve));
      }
    };
    try {
      await retry(publish, {
        signal,
        firstMs: ASK_AGAIN_MS,
        sleep: (ms, aborted) => time.sleep(ms, aborted),
        onError: (error) =>
          log.warn({ err: error }, 'the routes could not be read for the gateway; they are read again'),
      });
    } finally {
      changedOf.delete(note);
    }
  };

  return {
    follow,
    changed(id) {
      for (const note of changedOf) note(id);
    },
  };
}
