/**
 * Reconciles one instance under a lease: observe, `plan()`, execute one step, write, until the plan
 * rests. Lease and generation guard every write, so results for a superseded generation are
 * dropped. External effects are idempotent: a reconcile killed anywhere starts over.
 */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { cpuOnlyPrice } from '../../../domain/compute/instance-change.ts';
import { clampFutureTimes, memoryKillsOf, type Instance } from '../../../domain/compute/instance.ts';
import { plan, usesHost, type InstanceObservation, type Step } from '../../../domain/compute/plan.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import type { Db } from '../../../store/store.ts';
import { instanceFromRow, type InstanceRow } from '../../../store/tables/instances.ts';
import { writeReclaim } from '../../../store/tables/tide-and-spot.ts';
import { ensureContainer, refreshFiles } from './bring-up.ts';
import { growDisks } from './grow-disks.ts';
import { loseRootDisk } from './root-disk.ts';
import { acquireCapacity } from './acquire-capacity.ts';
import { awaitWindow } from './await-window.ts';
import { cleanUp, haltContainer, removeSaved, removeUnfinished, saveRoot } from './take-down.ts';
import { checkReports, checkReady } from './readiness.ts';
import {
  failInstance,
  writeInstance,
  writeObservation,
  Superseded,
  callDeadline,
  type InstanceReconcilerDeps,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
  type BackOffDelay,
} from './reconcile-context.ts';
import { notifyAdministrators, type LeasedRow, type ReconcileResult, type Time } from '../../kernel/ports.ts';

export function makeInstanceReconciler(deps: InstanceReconcilerDeps) {
  const backOffs = makeBackOffs(deps.time);
  return async ({ row, leaseToken, signal }: LeasedRow<InstanceRow>): Promise<ReconcileResult> => {
    const leftMs = backOffs.leftMs(row);
    if (leftMs > 0) return { dueAtMs: deps.time.now() + leftMs };
    const counted = (await deps.readCatalog()).regions.get(row.regionId);
    if (!counted) throw new Error(`region ${row.regionId} is not configured`);
    const drivers = deps.regions.of(row.regionId);
    const notebookToken = (): string => deps.notebookTokens.open(row);
    const context: ReconcileContext = { deps, drivers, region: counted.region, leaseToken, signal, notebookToken };
    const instance = instanceFromRow(row);
    const state: InstanceState = { instance, written: instance, holdsCapacity: row.holdsCapacity === 1 };
    try {
      const clamped = clampFutureTimes(instance, deps.time.now());
      const start = clamped ? await writeInstance(context, state, clamped) : state;
      return await reconcileUntilRest(context, start, backOffs);
    } catch (error) {
      if (error instanceof Superseded || signal.aborted) return { dueAtMs: deps.time.now() };
      if (!(error instanceof EngineFault)) throw error;
      deps.log.warn({ id: row.id, kind: error.kind, err: error }, 'a step failed at the engine; Berth retries it');
      return { dueAtMs: deps.time.now() + deps.limits.engineRetryMs };
    }
  };
}

async function reconcileUntilRest(
  context: ReconcileContext,
  start: InstanceState,
  backOffs: BackOffs,
): Promise<ReconcileResult> {
  const { deps } = context;
  let result: StepResult = { state: start, next: 'again' };
  for (let before: Step['do'] | null = null; ;) {
    const { state } = result;
    const observation = result.observation ?? (await observe(context, state.instance));
    const step = plan(state.instance, observation, deps.time.now(), deps.limits);
    // The engine reported the halt as done, but the container still runs.
    if (step.do === 'halt' && before === 'halt') return { dueAtMs: deps.time.now() + deps.limits.engineRetryMs };
    // The restored Docker sidecar ended at once.
    if (step.do === 'refresh' && before === 'refresh' && !state.instance.filesStale)
      return { dueAtMs: deps.time.now() + deps.limits.engineRetryMs };
    result = await executeStep(context, state, step, observation);
    before = step.do;
    const { next } = result;
    if (next === 'again') continue;
    if (next === null) return { dueAtMs: null };
    if (typeof next === 'number') return { dueAtMs: deps.time.now() + next };
    backOffs.begin(result.state.instance, next);
    return { dueAtMs: deps.time.now() + next.backOffMs };
  }
}

/** Skips the engine before its first `ensure`. */
async function observe(context: ReconcileContext, instance: Instance): Promise<InstanceObservation> {
  const { drivers, deps } = context;
  const { id, everEnsured } = instance;
  if (!everEnsured) return { kind: 'absent' };
  const observation = (await drivers.engine.observe([id], callDeadline(context))).get(id);
  if (!observation) return { kind: 'unknown', reason: 'the engine gave no answer about this instance' };
  const { health } = deps;
  const [answers, gpuLostAtMs] = [health.answers(instance), health.gpuLostAtMs(instance)];
  const memoryKills = health.memoryKills(instance);
  if (observation.kind !== 'present') return observation;
  return {
    ...observation,
    ...(answers !== undefined && { answers }),
    ...(gpuLostAtMs !== undefined && { gpuLostAtMs }),
    ...(memoryKills !== undefined && { memoryKills }),
    ...(health.notebookDiffers(instance) && { notebookDiffers: true }),
  };
}

async function executeStep(
  context: ReconcileContext,
  state: InstanceState,
  step: Step,
  observation: InstanceObservation,
): Promise<StepResult> {
  switch (step.do) {
    case 'rest': {
      const next = step.afterMs ?? null;
      const isHalted = state.instance.desired === 'stopped' && state.holdsCapacity && next === null;
      return { state: isHalted ? await writeObservation(context, state, {}, { freeCapacity: true }) : state, next };
    }
    case 'mark': {
      const { show: observed, attempts, afterMs, backOffMs, rootDisk } = step;
      const change = { observed, attempts, rootDisk };
      const next = backOffMs === undefined ? (afterMs ?? 'again') : { backOffMs };
      return { state: await writeObservation(context, state, change), next };
    }
    case 'loseRootDisk':
      return loseRootDisk(context, state, step);
    case 'failPermanently':
      return failInstance(context, state, step, usesOf(observation));
    case 'halt':
      return haltContainer(context, state, step);
    case 'settle': {
      const stoppedAtMs = state.instance.observed.stoppedAtMs || context.deps.time.now();
      const observed = { ...step.show, stoppedAtMs };
      return { state: await writeObservation(context, state, { observed }, { freeCapacity: true }), next: 'again' };
    }
    case 'awaitWindow':
      return awaitWindow(context, state);
    case 'acquireCapacity':
      return acquireCapacity(context, state);
    case 'saveRoot':
      return saveRoot(context, state);
    case 'removeSaved':
      return removeSaved(context, state);
    case 'removeUnfinished':
      return removeUnfinished(context, state);
    case 'destroy':
      return cleanUp(context, state);
    case 'ensure':
      return ensureContainer(context, state, step.show);
    case 'announceReclaim':
      return announceReclaim(context, state, step);
    case 'stop':
      return stopForRun(context, state, step);
    case 'refresh':
      return refreshFiles(context, state);
    case 'grow':
      return growDisks(context, state);
    case 'checkReady':
      return checkReady(context, state, step);
    case 'loseGpu':
      return loseGpu(context, state, step);
    case 'reportKills':
      return reportKills(context, state, step);
    case 'checkReports':
      return checkReports(context, state);
    default:
      return step satisfies never;
  }
}

const usesOf = (observation: InstanceObservation) => ({
  isRunning: observation.kind === 'present' && observation.running,
  usesHost: observation.kind === 'present' && usesHost(observation),
});

/** Tells the administrators too. Costs nothing where the region has no price without GPUs. */
async function loseGpu(
  context: ReconcileContext,
  state: InstanceState,
  { sinceMs, show }: Extract<Step, { do: 'loseGpu' }>,
): Promise<StepResult> {
  const { id, ownerName, observed, spec, priceMicros } = state.instance;
  const { store, time, readCatalog } = context.deps;
  const types = [...(await readCatalog()).types.values()];
  const { regionId } = spec;
  const offered = types.filter((type) => type.regionId === regionId);
  const price = cpuOnlyPrice(spec.type, spec.chargeMode, priceMicros, offered);
  const { runStartedAtMs } = observed;
  const lostGpu = { runStartedAtMs, sinceMs, priceMicros: typeof price === 'string' ? 0 : price };
  const written = await writeObservation(context, state, { observed: { ...show, lostGpu } });
  const event = {
    atMs: time.now(),
    kind: 'card.lost',
    subjectId: regionId,
    data: { instanceId: id, ownerName, sinceMs },
  };
  await store.write((tx) => notifyAdministrators(tx, event));
  return { state: written, next: 'again' };
}

async function reportKills(
  context: ReconcileContext,
  state: InstanceState,
  { count, atMs }: Extract<Step, { do: 'reportKills' }>,
): Promise<StepResult> {
  const { instance } = state;
  const { id, ownerId, observed, spec } = instance;
  const { runStartedAtMs } = observed;
  const killed = count - (memoryKillsOf(instance)?.count ?? 0);
  const next = { ...instance, observed: { ...observed, memoryKills: { runStartedAtMs, count, atMs } } };
  const data = { killed, atMs, memoryGB: spec.type.memoryGB };
  const event = {
    accountId: ownerId,
    atMs: context.deps.time.now(),
    kind: 'instance.outOfMemory',
    subjectId: id,
    data,
  };
  const alongside = async (tx: Db): Promise<void> => void (await appendEvent(tx, event));
  return { state: await writeInstance(context, state, next, { alongside }), next: 'again' };
}

type Row = Pick<Instance, 'generation'> & { id: string };
type BackOffs = ReturnType<typeof makeBackOffs>;

/**
 * Delays the next attempt after a failure, whatever wakes the row: the engine hints at every failed
 * start, and would use up all attempts within a second. A new generation starts at once.
 */
function makeBackOffs({ elapsed }: Pick<Time, 'elapsed'>) {
  const byId = new Map<string, { generation: number; untilMs: number }>();
  return {
    begin({ id, generation }: Row, { backOffMs }: BackOffDelay): void {
      byId.set(id, { generation, untilMs: elapsed() + backOffMs });
    },
    leftMs({ id, generation }: Row): number {
      const backOff = byId.get(id);
      if (!backOff) return 0;
      const leftMs = backOff.generation === generation ? backOff.untilMs - elapsed() : 0;
      if (leftMs <= 0) byId.delete(id);
      return Math.max(0, leftMs);
    },
  };
}

/**
 * Tells the owner that the engine takes the capacity; `capacity/reclaim-spots.ts` stops the
 * instance in time. Comes first: a run that has ended must not begin again without it.
 */
async function announceReclaim(
  context: ReconcileContext,
  start: InstanceState,
  { atMs, reason, show }: Extract<Step, { do: 'announceReclaim' }>,
): Promise<StepResult> {
  const { store, time } = context.deps;
  const { id, ownerId } = start.instance;
  await store.write((tx) => writeReclaim(tx, { id, ownerId }, { atMs, reason }, time.now()));
  const state = Object.keys(show).length === 0 ? start : await writeObservation(context, start, { observed: show });
  // The announcement made the row due again.
  return { state, next: null };
}

/** Writes the reason first: the stop keeps it. */
async function stopForRun(
  context: ReconcileContext,
  start: InstanceState,
  { cause, why, show }: Extract<Step, { do: 'stop' }>,
): Promise<StepResult> {
  const state = await writeObservation(context, start, { observed: show });
  const { id, ownerId, generation } = state.instance;
  await context.deps.stopAutomatically({ id, ownerId }, (instance) =>
    instance.generation === generation ? { cause, why } : null,
  );
  // The stop made the row due again.
  return { state, next: null };
}
