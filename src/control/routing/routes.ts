/** What the gateway may ask: where an instance's ports are, and who may reach them. */
import { EngineFault } from '../../domain/engine-fault.ts';
import { isInstanceId, type InstanceId } from '../../domain/ids.ts';
import { effectiveAccess } from '../../domain/port-access.ts';
import type { Engine } from '../../engines/contract.ts';
import { instanceFromRow, instanceRow, type InstanceRow } from '../../store/tables/instances.ts';
import { portAccessOf } from '../../store/tables/port-access.ts';
import type { Store } from '../../store/store.ts';
import type { Regions } from '../base/regions.ts';
import type { Time } from '../base/time.ts';
import type { Forwarding, GatewayRoute } from './gateway-types.ts';

/** Another process may have changed a route: what is kept here is at most this old. */
const FRESH_MS = 1_000;
const KEPT_ROUTES = 20_000;

interface Kept {
  route: GatewayRoute | null;
  engine: Engine | null;
  untilMs: number;
}

export interface Routes extends Pick<Forwarding, 'route' | 'dial'>, Pick<Engine, 'openExec' | 'exec'> {
  /** Forgets what is kept of an instance, because it changed. */
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
  const kept = new Map<string, Kept>();
  let changes = 0;

  const find = async (id: string): Promise<Kept> => {
    const old = kept.get(id);
    if (old && old.untilMs > time.elapsed()) return old;
    const changesBefore = changes;
    const row = isInstanceId(id) ? await instanceRow(store.read, id) : undefined;
    const fresh: Kept = { route: null, engine: null, untilMs: time.elapsed() + FRESH_MS };
    if (row && row.desired !== 'released') {
      fresh.engine = regions.of(row.regionId).engine;
      fresh.route = routeOf(row);
    }
    if (kept.size >= KEPT_ROUTES) kept.clear();
    // What was read before a change must not be kept after it.
    if (changes === changesBefore) kept.set(id, fresh);
    return fresh;
  };

  const engineOf = async (id: InstanceId): Promise<Engine> => {
    const { engine } = await find(id);
    if (!engine) throw new EngineFault('not_found', `instance ${id} does not run`, { retry: false });
    return engine;
  };

  return {
    async route(id) {
      return (await find(id)).route;
    },
    dial: async (id, port, signal) => (await engineOf(id)).dial(id, port, signal),
    openExec: async (id, wish, signal) => (await engineOf(id)).openExec(id, wish, signal),
    exec: async (id, command, signal) => (await engineOf(id)).exec(id, command, signal),
    invalidate(id) {
      changes += 1;
      kept.delete(id);
    },
  };
}
