/** Stop, start, restart, archive and terminate: each writes a wish over the one that stands, and leaves the deed to the pass. */
import { refusalOfAction, type Action } from '../../domain/instance-states.ts';
import type { Instance } from '../../domain/instance.ts';
import { beginStage, operationId, type Cause } from '../../domain/operation.ts';
import { instanceNotFound, Refusal } from '../../domain/refusal.ts';
import { applyAction } from '../../domain/desired-state.ts';
import { revokeGrantsOfInstance } from '../../store/tables/gateway-grants.ts';
import { deleteSharesOf } from '../../store/tables/port-shares.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { lockInstance, instanceFromRow, writeDesiredState, type InstanceRow } from '../../store/tables/instances.ts';
import type { Db, Store } from '../../store/store.ts';
import { releaseCapacity, enqueue, advanceQueue, reserveCapacity } from '../capacity/queue.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';
import type { Idempotent } from '../base/idempotent.ts';
import { refuseWithoutSaving, type Regions } from '../base/regions.ts';
import type { Caller, Idempotency } from '../base/caller.ts';
import type { PublishChanges } from '../base/changes.ts';

export interface ActionDeps {
  store: Store;
  regions: Regions;
  readCatalog: () => Promise<CatalogSnapshot>;
  now: () => number;
  idempotent: Idempotent;
  changes: PublishChanges;
}

const eventOf = {
  stop: 'instance.stopWished',
  start: 'instance.startWished',
  restart: 'instance.restartWished',
  archive: 'instance.archiveWished',
  terminate: 'instance.released',
};

export function makeAction(action: Action, deps: ActionDeps) {
  return async (
    caller: Caller,
    body: { instanceId: string },
    idempotency: Idempotency | null,
    waitMs: number | null = null,
  ) => {
    const catalog = await deps.readCatalog();
    const answer = await deps.store.write((tx) => {
      const nowMs = deps.now();
      const perform = () =>
        writeOwnAction(tx, deps.regions, caller, body.instanceId, { action, cause: 'user', catalog, nowMs, waitMs });
      return deps.idempotent(tx, caller.accountId, idempotency, nowMs, perform);
    });
    deps.changes.publish({ subject: 'instance', id: body.instanceId, isDue: true });
    return answer;
  };
}

async function writeOwnAction(tx: Db, regions: Regions, caller: Caller, id: string, how: ActionInput) {
  const row = await lockInstance(tx, caller.accountId, id);
  if (!row) throw instanceNotFound();
  if (how.action === 'archive') refuseWithoutSaving(regions.of(row.regionId));
  return { instanceId: id, operationId: await writeAction(tx, row, how) };
}

/** Stops a running instance as its owner would, if what decides still says so of the row as it is then. False: it does not. */
export type StopAutomatically = (
  of: { id: string; ownerId: string },
  decide: (instance: Instance, nowMs: number) => { cause: Cause; why: object } | null,
) => Promise<boolean>;

export const makeStopAutomatically =
  (deps: ActionDeps): StopAutomatically =>
  async ({ id, ownerId }, decide) => {
    const catalog = await deps.readCatalog();
    const stopped = await deps.store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (row?.desired !== 'running') return false;
      const nowMs = deps.now();
      const due = decide(instanceFromRow(row), nowMs);
      if (due) await writeAction(tx, row, { action: 'stop', catalog, nowMs, ...due });
      return due !== null;
    });
    if (!stopped) return false;
    deps.changes.publish({ subject: 'instance', id, isDue: true });
    return true;
  };

export interface ActionInput {
  action: Action;
  cause: Cause;
  catalog: CatalogSnapshot;
  nowMs: number;
  /** What the event tells besides the cause, if Berth itself is it. */
  why?: object;
  /** How long a start waits in line for room; null, as if not given: not at all. */
  waitMs?: number | null;
}

/**
 * Writes a wish over a row that is held, whoever wishes it: capacity, row, event, grants. Answers the id of its operation. Throws a
 * `Refusal` for one that is not legal now.
 */
export async function writeAction(tx: Db, row: InstanceRow, how: ActionInput): Promise<string> {
  const { action, cause, catalog, nowMs, why = {}, waitMs = null } = how;
  const instance = instanceFromRow(row);
  const { id, ownerId } = instance;
  const illegal = refusalOfAction(action, instance.observed.status, instance.desired);
  if (illegal) throw new Refusal('not_now', `can't ${action} instance ${id}: ${illegal}`);
  const counted = catalog.regions.get(instance.spec.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${instance.spec.regionId} is not configured on this server`);

  const { regionId, type } = instance.spec;
  const held = row.holdsCapacity === 1;
  let next = applyAction(action, instance, nowMs, cause);
  if (action === 'start' && !held) {
    const noRoom = await reserveCapacity(tx, regionId, type, { ports: 0, nowMs });
    next = noRoom
      ? await enqueue(tx, next, noRoom, { ports: 0, catalog, waitMs, nowMs })
      : { ...next, operation: beginStage(next.operation, 'Placed', nowMs) };
  }
  const holdsCapacity = action !== 'terminate' && (action === 'start' ? next.waitsSinceMs === null : held);
  await writeDesiredState(tx, instance, next, counted.region, {
    dueAtMs: nowMs,
    holdsCapacity,
    releasedAtMs: action === 'terminate' ? nowMs : null,
  });
  // Whose turn it is then hangs on what the account still holds: after the row.
  if (held && !holdsCapacity) await releaseCapacity(tx, regionId, type, nowMs);
  const { waitsSinceMs } = instance;
  if (waitsSinceMs !== null) await advanceQueue(tx, regionId, nowMs, { id, waitsSinceMs });
  const data = cause === 'user' ? {} : { cause, ...why };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: eventOf[action], subjectId: id, data });
  // Under the account's lock, which the event has taken: a redeem under way comes before or finds nothing.
  if (action === 'terminate') {
    await revokeGrantsOfInstance(tx, id);
    await deleteSharesOf(tx, id);
  }
  return operationId(id, next.generation);
}
