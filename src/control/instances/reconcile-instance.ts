/**
 * The pass of one instance: observe, plan, do, write down; again until the plan rests. It runs under a lease; every write is guarded
 * by it and by the generation, so that a result under an old wish is dropped. What it does outside (image, disks, engine) is
 * idempotent: a pass that was killed anywhere is simply begun anew.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { clampFutureTimes } from '../../domain/instance.ts';
import { plan, type InstanceObservation, type Step } from '../../domain/plan.ts';
import { instanceFromRow, type InstanceRow } from '../../store/tables/instances.ts';
import type { LeasedRow, ReconcileResult } from '../base/reconcile-loop.ts';
import { makeBackOffs, type BackOffs } from './back-offs.ts';
import { ensureContainer, growDisks, refreshFiles } from './bring-up.ts';
import { acquireCapacity } from './acquire-capacity.ts';
import { cleanUp, haltContainer, removeArchived, removeUnfinished, saveRoot } from './put-away.ts';
import { checkInit, checkReady } from './readiness.ts';
import {
  fail,
  writeInstance,
  writeObservation,
  Superseded,
  callDeadline,
  type InstanceReconcilerDeps,
  type NextReconcile,
  type ReconcileContext,
} from './reconcile-context.ts';

export function makeInstanceReconciler(deps: InstanceReconcilerDeps) {
  const backOffs = makeBackOffs(deps.time);
  return async (held: LeasedRow<InstanceRow>): Promise<ReconcileResult> => {
    const leftMs = backOffs.leftMs(held.row);
    if (leftMs > 0) return { dueAtMs: deps.now() + leftMs };
    const counted = (await deps.readCatalog()).regions.get(held.row.regionId);
    if (!counted) throw new Error(`region ${held.row.regionId} is not configured`);
    const instance = instanceFromRow(held.row);
    const work: ReconcileContext = {
      deps,
      drivers: deps.regions.of(held.row.regionId),
      region: counted.region,
      held,
      instance,
      written: instance,
      notebookToken: held.row.notebookToken,
      holdsCapacity: held.row.holdsCapacity === 1,
      justSeen: null,
    };
    try {
      const dated = clampFutureTimes(instance, deps.now());
      if (dated) await writeInstance(work, dated);
      return await reconcileUntilRest(work, backOffs);
    } catch (error) {
      if (error instanceof Superseded || held.signal.aborted) return { dueAtMs: deps.now() };
      if (!(error instanceof EngineFault)) throw error;
      deps.log.warn(
        { id: held.row.id, kind: error.kind, err: error },
        'the engine could not do a step; it is asked again',
      );
      return { dueAtMs: deps.now() + deps.limits.engineRetryMs };
    }
  };
}

async function reconcileUntilRest(work: ReconcileContext, backOffs: BackOffs): Promise<ReconcileResult> {
  const { deps } = work;
  for (let before: Step['do'] | null = null; ;) {
    const seen = await observe(work);
    const step = plan(work.instance, seen, deps.now(), deps.limits);
    // The engine said that it had halted it, and it runs.
    if (step.do === 'halt' && before === 'halt') return { dueAtMs: deps.now() + deps.limits.engineRetryMs };
    // Its Docker was brought back, and ended at once.
    if (step.do === 'refresh' && before === 'refresh' && !work.instance.filesStale)
      return { dueAtMs: deps.now() + deps.limits.engineRetryMs };
    const rest = await executeStep(work, step);
    before = step.do;
    if (rest === 'again') continue;
    if (rest === null) return { dueAtMs: null };
    if (typeof rest === 'number') return { dueAtMs: deps.now() + rest };
    backOffs.begin(work.instance, rest);
    return { dueAtMs: deps.now() + rest.backOffMs };
  }
}

/** Asks the engine, unless it was never asked to make anything. */
async function observe(work: ReconcileContext): Promise<InstanceObservation> {
  const { drivers, deps, instance, justSeen } = work;
  work.justSeen = null;
  if (justSeen) return justSeen;
  if (!instance.everEnsured) return { kind: 'absent' };
  const seen = (await drivers.engine.observe([instance.id], callDeadline(work))).get(instance.id);
  if (!seen) return { kind: 'unknown', reason: 'the engine gave no answer about this instance' };
  const answers = deps.health.takeAnswer(instance.id);
  return seen.kind === 'present' && answers !== undefined ? { ...seen, answers } : seen;
}

async function executeStep(work: ReconcileContext, step: Step): Promise<NextReconcile> {
  const { deps, instance } = work;
  switch (step.do) {
    case 'rest':
      return step.afterMs ?? null;
    case 'mark':
      await writeObservation(work, { observed: step.show, attempts: step.attempts });
      return step.afterMs ?? 'again';
    case 'giveUp':
      return fail(work, step);
    case 'halt':
      return haltContainer(work, step);
    case 'settle': {
      const stoppedAtMs = instance.observed.stoppedAtMs || deps.now();
      await writeObservation(work, { observed: { ...step.show, stoppedAtMs } }, { freeCapacity: true });
      return 'again';
    }
    case 'place':
      return acquireCapacity(work);
    case 'saveRoot':
      return saveRoot(work);
    case 'removeKept':
      return removeArchived(work);
    case 'removeUnfinished':
      return removeUnfinished(work);
    case 'destroy':
      return cleanUp(work);
    case 'ensure':
      return ensureContainer(work, step.show);
    case 'refresh':
      return refreshFiles(work);
    case 'grow':
      return growDisks(work);
    case 'checkReady':
      return checkReady(work, step.show);
    case 'checkInit':
      return checkInit(work);
    default:
      return step satisfies never;
  }
}
