/** Halts resting instances, cleans up released ones, and saves root disks of archived ones. */
import type { DiskId } from '../../../domain/storage/disk.ts';
import { dataDisk, dockerDisk } from '../../../domain/compute/instance-disks.ts';
import type { Archive, Instance } from '../../../domain/compute/instance.ts';
import { EngineFault, isEngineAway } from '../../../domain/regions/engine-fault.ts';
import { heldPortCount } from '../../../domain/compute/instance-change.ts';
import { backOffMs } from '../../../domain/compute/instance-states.ts';
import { failOperation, operationErrorOf } from '../../../domain/compute/operation.ts';
import { diagnosisFields, failPermanently, type Step } from '../../../domain/compute/plan.ts';
import { deleteDisks } from '../../../store/tables/disks.ts';
import { releaseNodePortCapacity } from '../../../store/tables/capacity.ts';
import { deleteMountsOf, rewriteMounts } from '../../../store/tables/instances.ts';
import { releaseNodePorts, releaseOtherNodePorts } from '../../../store/tables/ports.ts';
import type { Db } from '../../../store/store.ts';
import { StorageFault } from '../../../storage/contract.ts';
import {
  callDeadline,
  failInstance,
  writeInstance,
  writeObservation,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
} from './reconcile-context.ts';
import { locateDisks, withDiskMutex, withCopyDeadline } from '../../storage/ports.ts';
import { makeInstanceProgressReporter } from '../../regions/ports.ts';

/** Delay after a refused stop, as a share of the time since the stop was requested. */
const STOP_RETRY_SHARE = 1 / 4;
const RETRY_MS = 60_000;
/** Factor of the engine's retry. */
const DISK_IN_USE_RETRIES = 5;

/** Stops the container. A refused stop is diagnosed and retried less and less often. */
export async function haltContainer(
  context: ReconcileContext,
  start: InstanceState,
  { show, graceMs }: Extract<Step, { do: 'halt' }>,
): Promise<StepResult> {
  const { drivers, deps, signal } = context;
  const { id, observed, requestedAtMs } = start.instance;
  const { phase, diagnosis } = observed;
  const isShown = (show.phase ?? phase) === phase && (show.diagnosis ?? diagnosis) === diagnosis;
  const state = isShown ? start : await writeObservation(context, start, { observed: show });
  try {
    await drivers.engine.halt(id, graceMs, callDeadline(context));
    return { state, next: 'again' };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof EngineFault) || error.kind === 'unreachable' || show.phase === undefined) throw error;
    const delayed = await writeObservation(context, state, { observed: diagnosisFields('StopDelayed', error.message) });
    const retryMs = Math.max(deps.limits.engineRetryMs, (deps.time.now() - requestedAtMs) * STOP_RETRY_SHARE);
    return { state: delayed, next: Math.min(deps.limits.backOffMaxMs, retryMs) };
  }
}

/**
 * Cleans up a released instance: first container, node ports and mounts; then its own disks,
 * however long that takes; then the row waits to leave the lists. A container that a late call
 * brings back is removed again; nothing else is done twice.
 */
export async function cleanUp(context: ReconcileContext, start: InstanceState): Promise<StepResult> {
  const { drivers, deps, signal } = context;
  const { id, everEnsured, observed, spec, archive, unfinished } = start.instance;
  if (everEnsured) await drivers.engine.destroy(id, callDeadline(context));
  if (observed.phase === 'Cleaned') return { state: start, next: null };
  let state = start;
  if (observed.phase !== 'RemovingDisks') {
    const release = async (tx: Db): Promise<void> => {
      await releaseNodePorts(tx, id);
      await deleteMountsOf(tx, id);
      await releaseNodePortCapacity(tx, spec.regionId, heldPortCount(start.instance));
    };
    const removing = { ...observed, phase: 'RemovingDisks' as const, ...diagnosisFields('', '') };
    state = await writeInstance(context, state, { ...state.instance, observed: removing }, { alongside: release });
  }
  const archived = archive === null ? [] : [archive.ref, ...archive.replaces];
  for (const ref of [...archived, ...unfinished]) await removeImage(context, state.instance, ref);
  for (const disk of await locateDisks(deps.store.read, drivers, [dataDisk(id), dockerDisk(id)])) {
    try {
      await deps.heldDisks.watch(disk, () => withDiskMutex(disk, () => disk.storage.destroy(disk), signal));
      await deps.store.write((tx) => deleteDisks(tx, [disk]));
    } catch (error) {
      signal.throwIfAborted();
      return diskRemains(context, state, disk, error);
    }
  }
  const cleaned = { ...state.instance.observed, phase: 'Cleaned' as const, ...diagnosisFields('', '') };
  const next = { ...state.instance, archive: null, rootDisk: 'none' as const, unfinished: [], observed: cleaned };
  return { state: await writeInstance(context, state, next), next: null };
}

/** The owner reads that the disk remains; processes of the host are named to operators alone. */
async function diskRemains(
  context: ReconcileContext,
  state: InstanceState,
  { kind }: DiskId,
  error: unknown,
): Promise<StepResult> {
  const { log, limits } = context.deps;
  const { id } = state.instance;
  if (error instanceof StorageFault && error.kind === 'busy') {
    const users = error.users.map(({ pid, command }) => `${command} (${pid})`).join(', ') || 'not found';
    log.warn(
      { id, disk: kind, users, err: error },
      'processes of the host hold a disk; Berth removes it when they end',
    );
    const text = `a process of the host still uses the ${kind} disk`;
    const held = diagnosisFields('DiskInUse', text);
    return {
      state: await writeObservation(context, state, { observed: held }),
      next: DISK_IN_USE_RETRIES * limits.engineRetryMs,
    };
  }
  log.error({ id, disk: kind, err: error }, 'could not remove a disk; Berth retries in a minute');
  const failed = diagnosisFields('DisksFailed', 'a disk could not be removed yet');
  return { state: await writeObservation(context, state, { observed: failed }), next: RETRY_MS };
}

/** Leaves an image that is not Berth's: a retry would never end. */
async function removeImage(context: ReconcileContext, { id }: Instance, ref: string): Promise<void> {
  try {
    await context.drivers.engine.removeImage(ref, callDeadline(context));
  } catch (error) {
    if (!(error instanceof EngineFault) || error.kind !== 'rejected') throw error;
    context.deps.log.error(
      { id, image: ref, err: error },
      'could not remove an archived root disk; the root disk stays on the engine',
    );
  }
}

/** A new name for each archive: in the engine's store, or in the operator's registry. */
const archiveRef = ({ drivers }: ReconcileContext, { id, generation }: Instance): string =>
  `${drivers.archivePrefix}/${id}:${generation}`;

const copy = <T>({ drivers, signal, deps }: ReconcileContext, fn: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  withCopyDeadline({ engine: drivers.engine, time: deps.time, signal }, deps.limits.copyDeadlineMs, fn);

/** Writes the archive's name, saves the root disk as that image, then writes the archive. */
export async function saveRoot(context: ReconcileContext, start: InstanceState): Promise<StepResult> {
  const { drivers } = context;
  const { instance } = start;
  const ref = archiveRef(context, instance);
  const unfinished = [...new Set([...instance.unfinished, ref])];
  let state = await writeObservation(context, start, {
    unfinished,
    observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') },
  });
  try {
    const { sizeBytes } = await copy(context, (signal) => drivers.engine.saveImage(instance.id, ref, signal));
    // Only a container that stays away needs its root disk elsewhere.
    const isPushed = drivers.archivePushed && instance.desired === 'archived';
    if (isPushed) {
      const pushed = await pushRoot(context, state, ref);
      state = pushed.state;
      if (pushed.fault) throw pushed.fault;
    }
    const before = instance.archive;
    const earlier = before === null ? [] : [before.ref, ...before.replaces];
    // The host's copy of a pushed image is not needed.
    const replaces = isPushed ? [...earlier, ref] : earlier;
    const archive: Archive = { ref, sizeBytes, generation: instance.generation, replaces };
    const rest = unfinished.filter((one) => one !== ref);
    state = await writeInstance(context, state, { ...state.instance, archive, rootDisk: 'saved', unfinished: rest });
    return { state, next: 'again' };
  } catch (error) {
    // Without an engine the root disk is where it was. A push also fails when the registry is away.
    if (!(error instanceof EngineFault) || isEngineAway(error)) throw error;
    return archiveFailed(context, state, error);
  }
}

/** Returns a fault instead of throwing: progress has moved the state on. */
async function pushRoot(
  context: ReconcileContext,
  start: InstanceState,
  ref: string,
): Promise<{ state: InstanceState; fault: EngineFault | null }> {
  const { engine, archiveCredentials } = context.drivers;
  let state = start;
  let fault: EngineFault | null = null;
  const reporter = makeInstanceProgressReporter(context.deps.time.elapsed, async (progress) => {
    state = await writeObservation(context, state, { observed: { phase: 'Archiving', ...progress } });
  });
  try {
    await copy(context, (signal) => engine.pushImage(ref, reporter.onProgress, signal, archiveCredentials));
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    fault = error;
  } finally {
    await reporter.finish();
  }
  return { state, fault };
}

async function archiveFailed(context: ReconcileContext, state: InstanceState, fault: EngineFault): Promise<StepResult> {
  const { deps, signal } = context;
  const { instance } = state;
  signal.throwIfAborted();
  const attempts = instance.attempts + 1;
  deps.log.warn({ id: instance.id, err: fault }, 'could not save the root disk as an image');
  const observed = { ...instance.observed, ...diagnosisFields('ArchiveFailed', fault.message) };
  // `not_found`: the container went away meanwhile; the next attempt observes again.
  if ((fault.retry || fault.kind === 'not_found') && attempts <= deps.limits.maxAttempts) {
    const next = backOffMs(attempts, deps.limits);
    return { state: await writeObservation(context, state, { attempts, observed }), next };
  }
  if (instance.desired === 'running')
    return failInstance(context, state, failPermanently(instance, 'ArchiveFailed', fault.message));
  // A container came back after the archive: no status to return to, and its root disk must stay.
  if (observed.status === 'Archived')
    return { state: await writeObservation(context, state, { observed }), next: RETRY_MS };
  const failure = operationErrorOf('ArchiveFailed', fault.message);
  const operation = failOperation(instance.operation, failure, deps.time.now());
  const next: Instance = { ...instance, desired: 'stopped', operation, observed };
  return { state: await writeInstance(context, state, next), next: 'again' };
}

/**
 * Removes the container of a saved root disk, then unneeded images: earlier archives, and the
 * host's copy of a pushed one. Releases what only that container had: node ports and mounts of
 * before a change. The instance keeps its other node ports.
 */
export async function removeSaved(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  const { drivers, deps } = context;
  const { instance } = state;
  const { id, archive, oldContainer, desired, observed, spec } = instance;
  await drivers.engine.destroy(id, callDeadline(context));
  for (const ref of archive?.replaces ?? []) await removeImage(context, instance, ref);
  // The start's deadline counts from here: a copy may take longer.
  const countedFromMs = desired === 'running' ? deps.time.now() : observed.countedFromMs;
  const next: Instance = {
    ...instance,
    archive: archive && { ...archive, replaces: [] },
    oldContainer: null,
    observed: { ...observed, countedFromMs },
  };
  const release = async (tx: Db): Promise<void> => {
    await releaseOtherNodePorts(tx, instance);
    await rewriteMounts(tx, next);
    await releaseNodePortCapacity(tx, spec.regionId, heldPortCount(instance) - heldPortCount(next));
  };
  const options = oldContainer === null ? {} : { alongside: release };
  return { state: await writeInstance(context, state, next, options), next: 'again' };
}

/** Removes what canceled or failed archives left: the engine may have finished them late. */
export async function removeUnfinished(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  for (const ref of state.instance.unfinished) await removeImage(context, state.instance, ref);
  return { state: await writeObservation(context, state, { unfinished: [] }), next: 'again' };
}
