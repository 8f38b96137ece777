/**
 * Waits without capacity and without a place in the queue: for the off-peak window of an instance
 * of the mode `tidePerHour`, or for an image whose pull has failed or takes long. Then joins
 * capacity as a start does.
 */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { nextStatus } from '../../../domain/compute/instance-states.ts';
import { NEVER_MS, offPeakWait, type OffPeakWait } from '../../../domain/regions/off-peak.ts';
import { diagnosisFields } from '../../../domain/compute/plan.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { lockInstance } from '../../../store/tables/instances.ts';
import { afterFault } from './bring-up.ts';
import { ensureImages } from './ensure-images.ts';
import {
  asWritten,
  Superseded,
  withInstance,
  writeInstance,
  writeInTransaction,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
} from './reconcile-context.ts';
import { advanceQueue, reserveOrEnqueue } from '../../regions/ports.ts';

/** When the queue refuses the instance, as by the account's quota. */
const JOIN_AGAIN_MS = 30_000;

export async function awaitWindow(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  const wait = await windowWait(context, state);
  if (wait !== null) return showWait(context, state, wait);
  const { state: pulled, fault } = await pullImage(context, state);
  if (fault) return afterFault(context, pulled, fault);
  try {
    return await joinCapacity(context, pulled);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const notBeforeMs = state.instance.notBeforeMs ?? context.deps.time.now();
    const shown = await showWait(context, state, { notBeforeMs, text: `it cannot join the queue: ${error.message}` });
    return { ...shown, next: JOIN_AGAIN_MS };
  }
}

/** Pulls the image of an instance that gave its capacity back for that. */
async function pullImage(
  context: ReconcileContext,
  state: InstanceState,
): Promise<{ state: InstanceState; fault: EngineFault | null }> {
  if (state.instance.observed.phase !== 'DownloadImage') return { state, fault: null };
  try {
    const pulled = await ensureImages(context, state, {});
    if (pulled.fault) return pulled;
    const { observed } = pulled.state.instance;
    const status = nextStatus(observed.status, 'create');
    const queued = { ...observed, status, phase: 'Queued', message: '', progress: null } as const;
    return { state: withInstance(pulled.state, { attempts: 1, observed: queued }), fault: null };
  } catch (fault) {
    if (fault instanceof EngineFault) return { state, fault };
    throw fault;
  }
}

/** Null: it may run now. */
export async function windowWait(
  { deps }: ReconcileContext,
  { instance: { spec } }: InstanceState,
): Promise<OffPeakWait | null> {
  if (spec.chargeMode !== 'tidePerHour') return null;
  const { regions } = await deps.readCatalog();
  return offPeakWait(spec, regions.get(spec.regionId)?.offPeak ?? null, deps.time.now());
}

async function showWait(
  context: ReconcileContext,
  state: InstanceState,
  { notBeforeMs, text }: OffPeakWait,
): Promise<StepResult> {
  const { instance } = state;
  const { time } = context.deps;
  const next = notBeforeMs === NEVER_MS ? null : Math.max(1, notBeforeMs - time.now());
  const isSame = instance.notBeforeMs === notBeforeMs && instance.observed.diagnosisMessage === text;
  if (isSame) return { state, next };
  const reason = instance.spec.chargeMode === 'tidePerHour' ? 'OffPeakWait' : 'NoCapacity';
  const observed = { ...instance.observed, ...diagnosisFields(reason, text) };
  const waiting = { ...instance, waitsSinceMs: null, waitsUntilMs: null, notBeforeMs, observed };
  const { id, waitsSinceMs, spec } = instance;
  const leave =
    waitsSinceMs === null
      ? {}
      : {
          alongside: (tx: Parameters<typeof advanceQueue>[0]) =>
            advanceQueue(tx, spec.regionId, time.now(), { id, waitsSinceMs }),
        };
  return { state: await writeInstance(context, state, waiting, leave), next };
}

/** Leaves the capacity queue when the window closes, and waits for the next one. */
export const leaveQueue = showWait;

async function joinCapacity(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  const { deps } = context;
  const { instance } = state;
  const { id, ownerId } = instance;
  const catalog = await deps.readCatalog();
  const nowMs = deps.time.now();
  const options = { ports: 0, catalog, waitMs: Infinity, spotGraceMs: deps.spotGraceMs, nowMs };
  const written = await deps.store.write(async (tx) => {
    // In the order of all writers: the instance before the region.
    if (!(await lockInstance(tx, ownerId, id))) throw new Superseded();
    const observed = { ...instance.observed, ...diagnosisFields('', '') };
    const newcomer = { ...instance, notBeforeMs: null, requestedAtMs: nowMs, observed };
    const joined = await reserveOrEnqueue(tx, newcomer, options);
    const holdsCapacity = joined.waitsSinceMs === null && joined.notBeforeMs === null;
    return writeInTransaction(tx, context, state, joined, { holdsCapacity });
  });
  deps.changes.publish({ subject: 'instance', id, isDue: true });
  const holdsCapacity = written.waitsSinceMs === null && written.notBeforeMs === null;
  return { state: { ...asWritten(state, written), holdsCapacity }, next: 'again' };
}
