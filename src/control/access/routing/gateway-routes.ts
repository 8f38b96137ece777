/**
 * Routes for the gateway: one from a cache, or all for a gateway whose API is away. Instances of
 * disabled accounts have none, which cuts every connection to them.
 */
import { makeCache } from '../../../async/cache.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { isInstanceId, type InstanceId } from '../../../domain/kernel/ids.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import type { InstanceStatus } from '../../../domain/compute/instance-states.ts';
import { effectiveAccess, SSH_PORT, type AccessByPort } from '../../../domain/access/port-access.ts';
import type { Engine } from '../../../engines/contract.ts';
import { instanceFromRow, type InstanceRow } from '../../../store/tables/instances.ts';
import { portAccessOf, wakeOf } from '../../../store/tables/ports.ts';
import type { Forwarding, GatewayRoute, RouteTable, RouteUpdate, SshBackend } from './gateway-types.ts';
import { retry } from '../../../async/retry.ts';
import { activeRowsAmong, activeInstanceRows } from '../../../store/tables/instance-queries.ts';
import { makeLoopbackDial } from './loopback.ts';
import type { NotebookTokens } from './notebook-tokens.ts';
import type { TaskDeps, UseCaseDeps } from '../../kernel/ports.ts';

/** Maximum delay of changes by other processes. */
const FRESH_MS = 1_000;
const MAX_CACHED = 20_000;

const LAUNCHING: ReadonlySet<InstanceStatus> = new Set(['Initializing', 'Starting']);

interface CachedRoute {
  route: GatewayRoute | null;
  engine: Engine | null;
}

export interface Routes extends Pick<Forwarding, 'route' | 'dial' | 'dialLoopback'>, SshBackend {
  invalidate(instanceId: string): void;
}

/** Access to the forwarded ports of an instance. */
export const portAccessIn = (row: InstanceRow, { nodePorts }: Pick<Instance, 'nodePorts'>): AccessByPort =>
  effectiveAccess(
    nodePorts.map(({ port }) => port),
    portAccessOf(row),
  );

async function gatewayRouteOf(row: InstanceRow, { notebookTokens, readCatalog }: RowDeps): Promise<GatewayRoute> {
  const instance = instanceFromRow(row);
  const region = (await readCatalog()).regions.get(row.regionId)?.region;
  return {
    instanceId: instance.id,
    regionId: row.regionId,
    ownerId: instance.ownerId,
    access: portAccessIn(row, instance),
    nodePorts: new Map(region && publishedPorts(instance, region.sshAddress)),
    running: instance.observed.status === 'Running',
    status: instance.observed.status,
    notebookToken: notebookTokens.open(row),
    sshFront: instance.observed.sshFront && instance.desired === 'running',
    notebook: notebookOf(instance),
    wake: wakeOf(row).by,
    startingImage: startingImageOf(instance),
  };
}

function notebookOf({ spec, observed: { notebook } }: Instance): GatewayRoute['notebook'] {
  if (spec.runImageCommand) return { state: 'command', text: '' };
  return notebook && { state: notebook.state, text: notebook.text };
}

function startingImageOf({ desired, operation, observed, spec }: Instance): string | undefined {
  const { status, diagnosis, notebook } = observed;
  const starts = status === 'Running' ? notebook?.state === 'starting' : LAUNCHING.has(status) && diagnosis === '';
  const isLaunch = desired === 'running' && operation.kind === 'launch' && !spec.runImageCommand;
  return isLaunch && starts ? spec.image.ref : undefined;
}

function publishedPorts({ nodePorts, observed }: Instance, host: string): [number, string][] {
  if (observed.status !== 'Running') return [];
  const published = nodePorts.filter(({ port, nodePort }) => port !== SSH_PORT && nodePort > 0);
  return published.map(({ port, nodePort }) => [port, `${host.includes(':') ? `[${host}]` : host}:${nodePort}`]);
}

interface RowDeps extends Pick<UseCaseDeps, 'readCatalog'> {
  notebookTokens: Pick<NotebookTokens, 'open'>;
}

type RouteDeps = Pick<TaskDeps, 'store' | 'regions' | 'time'> & RowDeps;

export function makeRoutes({ store, regions, time, ...rowDeps }: RouteDeps): Routes {
  const load = async (id: string): Promise<CachedRoute> => {
    const [row] = isInstanceId(id) ? await activeRowsAmong(store.read, [id], { reachable: true }) : [];
    if (!row) return { route: null, engine: null };
    return { route: await gatewayRouteOf(row, rowDeps), engine: regions.of(row.regionId).engine };
  };
  const cache = makeCache<CachedRoute>({
    load,
    elapsed: () => time.elapsed(),
    ttlMs: FRESH_MS,
    maxEntries: MAX_CACHED,
  });

  const engineOf = async (id: InstanceId): Promise<Engine> => {
    const { engine } = await cache.get(id);
    if (!engine) throw new EngineFault('not_found', `instance ${id} is not running`, { retry: false });
    return engine;
  };

  const joinNetwork: SshBackend['joinNetwork'] = async (id, signal) => (await engineOf(id)).joinNetwork(id, signal);

  return {
    async route(id) {
      return (await cache.get(id)).route;
    },
    dial: async (id, port, signal) => (await engineOf(id)).dial(id, port, signal),
    openExec: async (id, request, signal) => (await engineOf(id)).openExec(id, request, signal),
    exec: async (id, command, signal) => (await engineOf(id)).exec(id, command, signal),
    dialLoopback: makeLoopbackDial({ joinNetwork }),
    joinNetwork,
    listenUnix: async (id, onConnection, signal) => (await engineOf(id)).listenUnix(id, onConnection, signal),
    invalidate: (id) => cache.invalidateKey(id),
  };
}

const PAGE = 1_000;
const RETRY_MS = 1_000;

export interface PublishedRoutes extends RouteTable {
  changed(instanceId: string): void;
}

type RouteTableDeps = Pick<TaskDeps, 'store' | 'time' | 'log'> & RowDeps;

/** Changes during a snapshot are sent after the snapshot. */
export function makeRouteTable({ store, time, log, ...rowDeps }: RouteTableDeps): PublishedRoutes {
  const routesOf = (rows: readonly InstanceRow[]): Promise<GatewayRoute[]> =>
    Promise.all(rows.map((row) => gatewayRouteOf(row, rowDeps)));
  const followers = new Set<(id: string) => void>();

  async function sendSnapshot(send: (update: RouteUpdate) => void, onlyRunning: boolean): Promise<void> {
    for (let afterId = ''; ;) {
      const rows = await activeInstanceRows(store.read, { afterId, limit: PAGE, onlyRunning, reachable: true });
      const isLast = rows.length < PAGE;
      send({ snapshot: isLast ? 'last' : 'part', routes: await routesOf(rows), gone: [] });
      if (isLast) return;
      afterId = rows.at(-1)?.id ?? '';
    }
  }

  async function sendChanges(ids: readonly string[], send: (update: RouteUpdate) => void): Promise<void> {
    const routes = await routesOf(await activeRowsAmong(store.read, ids, { reachable: true }));
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
        onError: (error) => log.warn({ err: error }, 'could not read the routes for the gateway; Berth retries'),
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
