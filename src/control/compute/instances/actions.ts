/** Stop, start, restart, archive and terminate: each writes a desired state for the reconciler. */
import { refusalOfAction, type Action } from '../../../domain/compute/instance-states.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { operationId, type Cause } from '../../../domain/compute/operation.ts';
import { DEFAULT_SPOT_GRACE_MS } from '../../../domain/compute/spot.ts';
import { rateOfInstance } from '../../../domain/money/meter.ts';
import { endingOf, reasonOfRequest, runChange } from '../../../domain/compute/start-outcomes.ts';
import { usageOfInstance } from '../../../domain/access/quota.ts';
import { disabledOwner, instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { applyAction, refusalOfLostRootDisk, withNewRootDisk } from '../../../domain/compute/desired-state.ts';
import {
  applyPending,
  cpuOnlyPrice,
  currentPriceMicros,
  heldPortCount,
} from '../../../domain/compute/instance-change.ts';
import { revokeGrantsOfInstance } from '../../../store/tables/gateway-grants.ts';
import { deleteSharesOf, releaseOtherNodePorts } from '../../../store/tables/ports.ts';
import { releaseNodePortCapacity } from '../../../store/tables/capacity.ts';
import {
  lockInstance,
  instanceFromRow,
  rewriteMounts,
  writeDesiredState,
  type InstanceRow,
} from '../../../store/tables/instances.ts';
import { deleteVariablesOf } from '../../../store/tables/variables.ts';
import type { Db } from '../../../store/store.ts';
import type { Instances } from './instances.ts';
import {
  advanceQueue,
  exchangeCapacity,
  releaseCapacity,
  reserveOrEnqueue,
  type EnqueueOptions,
} from '../../regions/ports.ts';
import {
  type CatalogSnapshot,
  type StopAutomatically,
  requestReconcile,
  refuseWithoutSaving,
  rootDiskFacts,
  type RegionDrivers,
  type Idempotency,
  type StartedOperation,
} from '../../kernel/ports.ts';
import {
  meteredInstance,
  type Metering,
  type MeteredDeps,
  followRun,
  refuseUnpaidRun,
  applyToPaidTime,
} from '../../money/ports.ts';
import { resizeOwnDisks } from '../../storage/ports.ts';

const eventOf = {
  stop: 'instance.stopWished',
  start: 'instance.startWished',
  restart: 'instance.restartWished',
  archive: 'instance.archiveWished',
  terminate: 'instance.released',
};

export const makeAction =
  (action: Action, deps: MeteredDeps): Instances['start'] =>
  async ({ accountId }, { instanceId, withoutGpu, newRootDisk }, idempotency, waitMs) => {
    const of = { action, instanceId, ownerId: accountId, withoutGpu, newRootDisk, waitMs, cause: 'user' } as const;
    return requestAction(deps, of, accountId, idempotency);
  };

interface RequestedAction {
  action: Action;
  instanceId: string;
  ownerId: string;
  withoutGpu?: boolean | undefined;
  newRootDisk?: boolean | undefined;
  waitMs?: number | null | undefined;
  cause: 'user' | 'operator';
  reason?: string;
}

/** Acts on an instance of `ownerId`. The idempotency key belongs to the caller, `accountId`. */
export async function requestAction(
  deps: MeteredDeps,
  { action, instanceId, ownerId, withoutGpu = false, newRootDisk = false, waitMs = null, ...why }: RequestedAction,
  accountId: string,
  idempotency: Idempotency | null,
): Promise<{ instanceId: string } & StartedOperation> {
  const catalog = await deps.readCatalog();
  const change = { subject: 'instance', id: instanceId } as const;
  return requestReconcile(deps, change, accountId, idempotency, async (tx, nowMs) => {
    const row = await lockInstance(tx, ownerId, instanceId);
    if (!row) throw instanceNotFound();
    const drivers = deps.regions.of(row.regionId);
    if (action === 'archive') refuseWithoutSaving(drivers);
    const { metering, spotGraceMs } = deps;
    const input = { action, catalog, metering, spotGraceMs, nowMs, waitMs, ...why };
    const bringUp = action === 'start' || action === 'restart' ? { drivers, withoutGpu, newRootDisk } : null;
    const operationId = await writeAction(tx, row, { ...input, bringUp });
    return { instanceId, operationId };
  });
}

export const makeStopAutomatically =
  (deps: Pick<MeteredDeps, 'store' | 'readCatalog' | 'time' | 'changes' | 'metering'>): StopAutomatically =>
  async ({ id, ownerId }, decide) => {
    const catalog = await deps.readCatalog();
    const stopped = await deps.store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (row?.desired !== 'running') return false;
      const nowMs = deps.time.now();
      const due = decide(instanceFromRow(row), nowMs);
      if (due) await writeAction(tx, row, { action: 'stop', catalog, metering: deps.metering, nowMs, ...due });
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
  metering: Metering;
  nowMs: number;
  why?: object;
  /** Given by an operator: shown to the owner. */
  reason?: string;
  /** Longest wait of a start in the queue; null: refuse at once. */
  waitMs?: number | null;
  spotGraceMs?: number;
  /** Required for start and restart, which apply pending changes. */
  bringUp?: BringUp | null;
}

interface BringUp {
  drivers: RegionDrivers;
  withoutGpu: boolean;
  newRootDisk?: boolean;
}

/**
 * Writes the desired state over a locked row, with capacity, event and grants. Returns the
 * operation's id. Throws a `Refusal` for an illegal action.
 */
export async function writeAction(tx: Db, row: InstanceRow, input: ActionInput): Promise<string> {
  const { action, cause, catalog, metering, nowMs, why = {}, reason, waitMs = null, bringUp = null } = input;
  const { spotGraceMs = DEFAULT_SPOT_GRACE_MS } = input;
  const instance = instanceFromRow(row);
  const { id, ownerId } = instance;
  const illegal =
    refusalOfAction(action, instance.observed.status, instance.desired) ??
    refusalOfLostRootDisk(action, instance, bringUp?.newRootDisk ?? false);
  if (illegal) throw new Refusal('not_now', `cannot ${action} instance ${id}: ${illegal}`);
  const counted = catalog.regions.get(instance.spec.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${instance.spec.regionId} is not configured on this server`);

  const { regionId } = instance.spec;
  const heldCapacity = row.holdsCapacity === 1;
  const isEnd = action !== 'start' && action !== 'terminate';
  const ending = isEnd ? await letEnd(tx, instance, { cause, metering, nowMs }) : instance;
  const changed = bringUp ? applyChange(ending, action, bringUp, catalog) : ending;
  const replacesRootDisk = action === 'start' && instance.rootDisk === 'lost';
  let next = applyAction(action, replacesRootDisk ? withNewRootDisk(changed) : changed, nowMs, cause);
  const withReason = reason === undefined ? {} : { reason };
  next = { ...next, operation: { ...next.operation, ...withReason } };
  if (bringUp) {
    next = await reserveChanged(tx, instance, next, { heldCapacity, catalog, waitMs, spotGraceMs, nowMs });
    await resizeOwnDisks(tx, bringUp.drivers, instance, next);
  }
  const holdsCapacity =
    action !== 'terminate' &&
    (action === 'start' ? next.waitsSinceMs === null && next.notBeforeMs === null : heldCapacity);
  await writeDesiredState(tx, instance, next, counted.region, {
    dueAtMs: nowMs,
    holdsCapacity,
    releasedAtMs: action === 'terminate' ? nowMs : null,
  });
  if (instance.pending !== null) {
    await rewriteMounts(tx, next);
    // Without a container to replace, nothing else releases them.
    if (next.oldContainer === null) await releaseOtherNodePorts(tx, next);
  }
  // After the row: the queue order depends on the account's held capacity.
  if (heldCapacity && !holdsCapacity) await releaseCapacity(tx, instance.spec, nowMs);
  const { waitsSinceMs } = instance;
  if (waitsSinceMs !== null) await advanceQueue(tx, regionId, nowMs, { id, waitsSinceMs });
  const how = {
    ...(bringUp !== null && next.spec.cpuOnlyPriceMicros !== null ? { withoutGpu: true } : {}),
    ...(replacesRootDisk ? { newRootDisk: true } : {}),
  };
  const data = cause === 'user' ? how : { cause, ...why, ...withReason, ...how };
  const usage = {
    before: usageOfInstance(instance, heldCapacity),
    after: usageOfInstance(next, holdsCapacity),
    mayRefuse: action !== 'stop' && action !== 'terminate',
  };
  const event = { accountId: ownerId, atMs: nowMs, kind: eventOf[action], subjectId: id, data, usage };
  const rates = { before: rateOfInstance(instance), after: rateOfInstance(next) };
  const run = runChange(instance, next, nowMs);
  const { isDisabled, seq } = await metering.appendEvent(tx, event, meteredInstance(next), { ...rates, ...run });
  await followRun(tx, { ...run, instance: next, seq, nowMs });
  if (bringUp && isDisabled) throw disabledOwner();
  if (action === 'start' || (action === 'restart' && currentPriceMicros(next) > currentPriceMicros(instance)))
    await refuseUnpaidRun(tx, metering, next, action);
  await applyToPaidTime(tx, metering, { action, instance: next, nowMs });
  // The event holds the account's lock: a concurrent redeem comes before, or finds nothing.
  if (action === 'terminate') {
    await revokeGrantsOfInstance(tx, id);
    await deleteSharesOf(tx, id);
    await deleteVariablesOf(tx, id);
  }
  return operationId(id, next.generation);
}

/** Lets a run end, unless nobody knows whether it went on after its last booking. */
async function letEnd(
  tx: Db,
  instance: Instance,
  { cause, metering, nowMs }: Pick<ActionInput, 'cause' | 'metering' | 'nowMs'>,
): Promise<Instance> {
  const ending = endingOf(instance, reasonOfRequest(cause), nowMs);
  const isNew = ending !== null && instance.observed.ending === null;
  if (isNew && !(await metering.isKnown(tx, instance.id))) return instance;
  return { ...instance, observed: { ...instance.observed, ending } };
}

/** Applies pending changes. A start decides about GPUs; a restart keeps them, or their absence. */
function applyChange(
  instance: Instance,
  action: Action,
  { drivers, withoutGpu }: BringUp,
  catalog: CatalogSnapshot,
): Instance {
  const { spec, pending } = instance;
  const type = pending?.resize?.type ?? spec.type;
  const rootDisk = rootDiskFacts(drivers);
  const isCpuOnly = action === 'start' ? withoutGpu : spec.cpuOnlyPriceMicros !== null && type.gpuCount > 0;
  if (!isCpuOnly) return applyPending(instance, { cpuOnlyPriceMicros: null, ...rootDisk });
  const priceMicros = pending?.resize ? BigInt(pending.resize.priceMicros) : instance.priceMicros;
  const offered = [...catalog.types.values()].filter(({ regionId }) => regionId === spec.regionId);
  const price = cpuOnlyPrice(type, spec.chargeMode, priceMicros, offered);
  if (typeof price === 'string') throw new Refusal('field_value', `field "withoutGpu" is true, but ${price}`);
  const next = applyPending(instance, { cpuOnlyPriceMicros: price, ...rootDisk });
  if (next.oldContainer !== null) refuseWithoutSaving(drivers);
  return next;
}

async function reserveChanged(
  tx: Db,
  before: Instance,
  next: Instance,
  { heldCapacity, ...options }: Omit<EnqueueOptions, 'ports'> & { heldCapacity: boolean },
): Promise<Instance> {
  const { spec, pending } = before;
  try {
    if (heldCapacity) await exchangeCapacity(tx, spec, next.spec, options);
    const reserved = heldCapacity ? next : await reserveOrEnqueue(tx, next, { ports: 0, ...options });
    await releaseNodePortCapacity(tx, spec.regionId, heldPortCount(before) - heldPortCount(next));
    return reserved;
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'no_capacity' || !pending?.resize) throw error;
    const undo = `or keep ${spec.type.name}: send "instanceTypeId": "${spec.type.id}" to POST /api/instance/update`;
    throw new Refusal('no_capacity', `${error.message}; ${undo}`);
  }
}
