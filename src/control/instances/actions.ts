/** Stop, start, restart, archive and terminate: each writes a desired state for the reconciler. */
import { refusalOfAction, type Action } from '../../domain/instance-states.ts';
import type { Instance } from '../../domain/instance.ts';
import { operationId, type Cause } from '../../domain/operation.ts';
import { instanceNotFound, Refusal } from '../../domain/refusal.ts';
import { applyAction } from '../../domain/desired-state.ts';
import { revokeGrantsOfInstance } from '../../store/tables/gateway-grants.ts';
import { deleteSharesOf } from '../../store/tables/ports.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { lockInstance, instanceFromRow, writeDesiredState, type InstanceRow } from '../../store/tables/instances.ts';
import { deleteVariablesOf } from '../../store/tables/variables.ts';
import type { Db } from '../../store/store.ts';
import { advanceQueue, releaseCapacity, reserveOrEnqueue } from '../capacity/queue.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';
import type { UseCaseDeps } from '../base/deps.ts';
import { requestReconcile } from '../base/idempotent.ts';
import { refuseWithoutSaving } from '../base/regions.ts';
import type { Instances } from './instances.ts';

const eventOf = {
  stop: 'instance.stopWished',
  start: 'instance.startWished',
  restart: 'instance.restartWished',
  archive: 'instance.archiveWished',
  terminate: 'instance.released',
};

export const makeAction =
  (action: Action, deps: UseCaseDeps): Instances['start'] =>
  async ({ accountId }, { instanceId }, idempotency, waitMs = null) => {
    const catalog = await deps.readCatalog();
    const change = { subject: 'instance', id: instanceId } as const;
    return requestReconcile(deps, change, accountId, idempotency, async (tx, nowMs) => {
      const row = await lockInstance(tx, accountId, instanceId);
      if (!row) throw instanceNotFound();
      if (action === 'archive') refuseWithoutSaving(deps.regions.of(row.regionId));
      const operationId = await writeAction(tx, row, { action, cause: 'user', catalog, nowMs, waitMs });
      return { instanceId, operationId };
    });
  };

/** Stops a running instance if `decide`, called with the locked row, wants it. True if stopped. */
export type StopAutomatically = (
  of: { id: string; ownerId: string },
  decide: (instance: Instance, nowMs: number) => { cause: Cause; why: object } | null,
) => Promise<boolean>;

export const makeStopAutomatically =
  (deps: Pick<UseCaseDeps, 'store' | 'readCatalog' | 'time' | 'changes'>): StopAutomatically =>
  async ({ id, ownerId }, decide) => {
    const catalog = await deps.readCatalog();
    const stopped = await deps.store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (row?.desired !== 'running') return false;
      const nowMs = deps.time.now();
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
  why?: object;
  /** Longest wait of a start in the queue; null: refuse at once. */
  waitMs?: number | null;
}

/**
 * Writes the desired state over a locked row, with capacity, event and grants. Returns the
 * operation's id. Throws a `Refusal` for an illegal action.
 */
export async function writeAction(tx: Db, row: InstanceRow, input: ActionInput): Promise<string> {
  const { action, cause, catalog, nowMs, why = {}, waitMs = null } = input;
  const instance = instanceFromRow(row);
  const { id, ownerId } = instance;
  const illegal = refusalOfAction(action, instance.observed.status, instance.desired);
  if (illegal) throw new Refusal('not_now', `cannot ${action} instance ${id}: ${illegal}`);
  const counted = catalog.regions.get(instance.spec.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${instance.spec.regionId} is not configured on this server`);

  const { regionId, type } = instance.spec;
  const heldCapacity = row.holdsCapacity === 1;
  let next = applyAction(action, instance, nowMs, cause);
  if (action === 'start' && !heldCapacity)
    next = await reserveOrEnqueue(tx, next, { ports: 0, catalog, waitMs, nowMs });
  const holdsCapacity = action !== 'terminate' && (action === 'start' ? next.waitsSinceMs === null : heldCapacity);
  await writeDesiredState(tx, instance, next, counted.region, {
    dueAtMs: nowMs,
    holdsCapacity,
    releasedAtMs: action === 'terminate' ? nowMs : null,
  });
  // After the row: the queue order depends on the account's held capacity.
  if (heldCapacity && !holdsCapacity) await releaseCapacity(tx, regionId, type, nowMs);
  const { waitsSinceMs } = instance;
  if (waitsSinceMs !== null) await advanceQueue(tx, regionId, nowMs, { id, waitsSinceMs });
  const data = cause === 'user' ? {} : { cause, ...why };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: eventOf[action], subjectId: id, data });
  // The event holds the account's lock: a concurrent redeem comes before, or finds nothing.
  if (action === 'terminate') {
    await revokeGrantsOfInstance(tx, id);
    await deleteSharesOf(tx, id);
    await deleteVariablesOf(tx, id);
  }
  return operationId(id, next.generation);
}
