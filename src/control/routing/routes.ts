import { makeCache } from '../../async/cache.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import { isInstanceId, type InstanceId } from '../../domain/ids.ts';
import { effectiveAccess } from '../../domain/port-access.ts';
import type { Engine } from '../../engines/contract.ts';
import { instanceFromRow, instanceRow, type InstanceRow } from '../../store/tables/instances.ts';
import { portAccessOf } from '../../store/tables/ports.ts';
import type { Store } from '../../store/store.ts';
import type { Regions } from '../base/regions.ts';
import type { Time } from '../base/time.ts';
import type { Forwarding, GatewayRoute } from './gateway-types.ts';

/** Maximum delay of changes by other processes. */
const FRESH_MS = 1_000;
const MAX_CACHED = 20_000;

interface CachedRoute {
  route: GatewayRoute | null;
  engine: Engine | null;
}

export interface Routes extends Pick<Forwarding, 'route' | 'dial'>, Pick<Engine, 'openExec' | 'exec'> {
  invalidate(instanceId: string): void;
}

export function routeOf(row: InstanceRow): GatewayRoute {
  const instance = instanceFromRow(row);
  return {
    instanceId: instance.id,
    ownerId: instance.ownerId,
    access: effectiveAccess(
      instance.nodePorts.map(({ port }) => port),
      portAccessOf(row),
    ),
    running: instance.observed.status === 'Running',
    status: instance.observed.status,
    notebookToken: row.notebookToken,
    sshFront: instance.observed.sshFront && instance.desired === 'running',
  };
}

export function makeRoutes({ store, regions, time }: { store: Store; regions: Regions; time: Time }): Routes {
  const load = async (id: string): Promise<CachedRoute> => {
    const row = isInstanceId(id) ? await instanceRow(store.read, id) : undefined;
    if (!row || row.desired === 'released') return { route: null, engine: null };
    return { route: routeOf(row), engine: regions.of(row.regionId).engine };
  };
  const cache = makeCache<CachedRoute>({ load, now: () => time.elapsed(), ttlMs: FRESH_MS, maxEntries: MAX_CACHED });

  const engineOf = async (id: InstanceId): Promise<Engine> => {
    const { engine } = await cache.get(id);
    if (!engine) throw new EngineFault('not_found', `instance ${id} does not run`, { retry: false });
    return engine;
  };

  return {
    async route(id) {
      return (await cache.get(id)).route;
    },
    dial: async (id, port, signal) => (await engineOf(id)).dial(id, port, signal),
    openExec: async (id, request, signal) => (await engineOf(id)).openExec(id, request, signal),
    exec: async (id, command, signal) => (await engineOf(id)).exec(id, command, signal),
    invalidate: (id) => cache.invalidateKey(id),
  };
}
