/**
 * How an instance is put away: one that is to rest is halted, a released one is cleaned up behind, an archived one keeps its root disk as an image.
 */
import { dataDisk, dockerDisk } from '../../domain/instance-disks.ts';
import type { Archive, Instance } from '../../domain/instance.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import { backOffMs } from '../../domain/instance-states.ts';
import { failOperation, operationErrorOf } from '../../domain/operation.ts';
import { diagnosisFields, type Step } from '../../domain/plan.ts';
import { deleteDisks } from '../../store/tables/disks.ts';
import { releaseNodePortCapacity } from '../../store/tables/capacity.ts';
import { deleteMountsOf } from '../../store/tables/instances.ts';
import { releaseNodePorts } from '../../store/tables/node-ports.ts';
import type { Db } from '../../store/store.ts';
import { locateDisks } from '../volumes/disks.ts';
import { withDiskMutex } from '../volumes/disk-mutex.ts';
import { withCopyDeadline } from '../volumes/copy-deadline.ts';
import { makeInstanceProgressReporter } from './progress.ts';
import {
  writeInstance,
  writeObservation,
  callDeadline,
  type NextReconcile,
  type ReconcileContext,
} from './reconcile-context.ts';

/** A stop that the engine refuses is tried again after such a share of the time that it has been tried for. */
const STOP_TRIES_SHARE = 4;
const TRY_AGAIN_MS = 60_000;

/** Stops its container. What the engine refuses is said and tried again, the less often the longer it lasts. */
export async function haltContainer(
  work: ReconcileContext,
  { show, graceMs }: Extract<Step, { do: 'halt' }>,
): Promise<NextReconcile> {
  const { drivers, deps, held, instance } = work;
  const { phase, diagnosis } = instance.observed;
  if ((show.phase ?? phase) !== phase || (show.diagnosis ?? diagnosis) !== diagnosis)
    await writeObservation(work, { observed: show });
  try {
    await drivers.engine.halt(instance.id, graceMs, callDeadline(work));
    return 'again';
  } catch (error) {
    held.signal.throwIfAborted();
    if (!(error instanceof EngineFault) || error.kind === 'unreachable' || show.phase === undefined) throw error;
    await writeObservation(work, { observed: diagnosisFields('StopDelayed', error.message) });
    const waitedMs = deps.now() - instance.requestedAtMs;
    return Math.min(deps.limits.backOffMaxMs, Math.max(deps.limits.engineRetryMs, waitedMs / STOP_TRIES_SHARE));
  }
}

/**
 * A released instance: its container goes, and with it ports and mounts are free; then its own disks, however long that takes; then the
 * row only waits to leave the lists. A container that comes back by the late effect of a call is removed again, and nothing else is done twice.
 */
export async function cleanUp(work: ReconcileContext): Promise<NextReconcile> {
  const { drivers, deps, held } = work;
  const { id, everEnsured, nodePorts, observed, spec, archive, unfinished } = work.instance;
  if (everEnsured) await drivers.engine.destroy(id, callDeadline(work));
  if (observed.phase === 'Cleaned') return null;
  if (observed.phase !== 'RemovingDisks') {
    const giveBack = async (tx: Db): Promise<void> => {
      await releaseNodePorts(tx, id);
      await deleteMountsOf(tx, id);
      await releaseNodePortCapacity(tx, spec.regionId, nodePorts.length);
    };
    const next = { ...observed, phase: 'RemovingDisks' as const, ...diagnosisFields('', '') };
    await writeInstance(work, { ...work.instance, observed: next }, { alsoWrite: giveBack });
  }
  const kept = archive === null ? [] : [archive.ref, ...archive.replaces];
  for (const ref of [...kept, ...unfinished]) await removeImage(work, ref);
  const disks = [dataDisk(id), dockerDisk(id)];
  try {
    // However long it takes, unless it is overtaken.
    for (const disk of await locateDisks(deps.store.read, drivers, disks))
      await withDiskMutex(disk.storage, disk, () => disk.storage.destroy(disk), held.signal);
  } catch (error) {
    held.signal.throwIfAborted();
    deps.log.error({ id, err: error }, 'a disk could not be removed; it is tried again');
    await writeObservation(work, { observed: diagnosisFields('DisksFailed', 'a disk could not be removed yet') });
    return TRY_AGAIN_MS;
  }
  const cleaned = { ...work.instance.observed, phase: 'Cleaned' as const, ...diagnosisFields('', '') };
  const next = { ...work.instance, archive: null, unfinished: [], observed: cleaned };
  await writeInstance(work, next, { alsoWrite: (tx) => deleteDisks(tx, disks) });
  return null;
}

/** One that turns out not to be ours stays: it would be asked for again for ever. */
async function removeImage(work: ReconcileContext, ref: string): Promise<void> {
  const { drivers, instance, deps } = work;
  try {
    await drivers.engine.removeImage(ref, callDeadline(work));
  } catch (error) {
    if (!(error instanceof EngineFault) || error.kind !== 'rejected') throw error;
    deps.log.error(
      { id: instance.id, image: ref, err: error },
      'an archived root disk could not be removed; it is left',
    );
  }
}

/** Where root disks are kept: a name that is no registry's, or one of the operator's registry. A new one for each archive. */
const archiveRef = ({ drivers, instance }: ReconcileContext): string =>
  `${drivers.archivePrefix}/${instance.id}:${instance.generation}`;

const copy = <T>({ drivers, held, deps }: ReconcileContext, fn: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  withCopyDeadline({ engine: drivers.engine, time: deps.time, signal: held.signal }, deps.limits.copyDeadlineMs, fn);

/** Writes down under which name the root disk will be, keeps it as an image, in the local store or the operator's registry, then writes down that it is kept. */
export async function saveRoot(work: ReconcileContext): Promise<NextReconcile> {
  const { drivers, instance } = work;
  const ref = archiveRef(work);
  const unfinished = [...new Set([...instance.unfinished, ref])];
  await writeObservation(work, {
    unfinished,
    observed: { phase: 'Archiving', message: '', ...diagnosisFields('', '') },
  });
  try {
    const { sizeBytes } = await copy(work, (signal) => drivers.engine.saveImage(instance.id, ref, signal));
    if (drivers.archivePushed) await pushRoot(work, ref);
    const before = instance.archive;
    const replaces = before === null ? [] : [before.ref, ...before.replaces];
    const archive: Archive = { ref, sizeBytes, generation: instance.generation, replaces };
    await writeInstance(work, { ...work.instance, archive, unfinished: unfinished.filter((one) => one !== ref) });
  } catch (error) {
    // Of a push, the registry may be away as well as the engine; the engine comes back, and the root disk is where it was.
    if (!(error instanceof EngineFault) || (error.kind === 'unreachable' && error.reason !== 'registryAway'))
      throw error;
    return archiveFailed(work, error);
  }
  return 'again';
}

async function pushRoot(work: ReconcileContext, ref: string): Promise<void> {
  const { engine, archiveCredentials } = work.drivers;
  const reporter = makeInstanceProgressReporter(work, () => ({ phase: 'Archiving' }));
  try {
    await copy(work, (signal) => engine.pushImage(ref, reporter.onProgress, signal, archiveCredentials));
  } finally {
    await reporter.finish();
  }
}

async function archiveFailed(work: ReconcileContext, fault: EngineFault): Promise<NextReconcile> {
  const { deps, held } = work;
  held.signal.throwIfAborted();
  const attempts = work.instance.attempts + 1;
  deps.log.warn({ id: work.instance.id, err: fault }, 'the root disk could not be kept as an image');
  const observed = { ...work.instance.observed, ...diagnosisFields('ArchiveFailed', fault.message) };
  // Its container went while it was being looked at: what there is then is looked at again.
  if ((fault.retry || fault.kind === 'not_found') && attempts <= deps.limits.maxAttempts) {
    await writeObservation(work, { attempts, observed });
    return backOffMs(attempts, deps.limits);
  }
  // A container that came back after all was Archived: there is no status to go back to, and its root disk is not thrown away.
  if (observed.status === 'Archived') {
    await writeObservation(work, { observed });
    return TRY_AGAIN_MS;
  }
  const failure = operationErrorOf('ArchiveFailed', fault.message);
  const operation = failOperation(work.instance.operation, failure, deps.now());
  await writeInstance(work, { ...work.instance, desired: 'stopped', operation, observed });
  return 'again';
}

/**
 * The container whose root disk is kept goes, and its node ports with it: the next start draws others. Then the images go that nobody
 * needs any more: what the archives before kept, and the host's own copy of what the registry has.
 */
export async function removeArchived(work: ReconcileContext): Promise<NextReconcile> {
  const { drivers, instance } = work;
  const { archive } = instance;
  await drivers.engine.destroy(instance.id, callDeadline(work));
  if (archive !== null) {
    const unneeded = drivers.archivePushed ? [...archive.replaces, archive.ref] : archive.replaces;
    for (const ref of unneeded) await removeImage(work, ref);
  }
  const next: Instance = {
    ...work.instance,
    nodePorts: instance.nodePorts.map((one) => ({ ...one, nodePort: 0 })),
    archive: archive && { ...archive, replaces: [] },
  };
  await writeInstance(work, next, { alsoWrite: (tx) => releaseNodePorts(tx, instance.id) });
  return 'again';
}

/** What archives that were given up, or failed, have left: the engine may have gone on with them after that. */
export async function removeUnfinished(work: ReconcileContext): Promise<NextReconcile> {
  for (const ref of work.instance.unfinished) await removeImage(work, ref);
  await writeObservation(work, { unfinished: [] });
  return 'again';
}
