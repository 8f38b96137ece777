/**
 * Grows an instance's own disks, and returns them to their actual sizes when a growth fails
 * permanently: a promise that cannot be kept is released, and blocks no start.
 */
import type { CountedSize, DiskId } from '../../../domain/storage/disk.ts';
import { isExpanding, withSizes, type DiskSizes } from '../../../domain/compute/desired-state.ts';
import type { Instance, InstanceSpec } from '../../../domain/compute/instance.ts';
import { dataDisk, dataDiskGB, dockerDisk, dockerDiskGB, ownDisks } from '../../../domain/compute/instance-disks.ts';
import { endOperation, failOperation } from '../../../domain/compute/operation.ts';
import { lockDisk, resizeDisk } from '../../../store/tables/disks.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import type { Db } from '../../../store/store.ts';
import { raceAbort } from '../../../async/abort.ts';
import {
  callDeadline,
  withInstance,
  writeInstance,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
} from './reconcile-context.ts';
import { DisksFailed, DisksLost, GrowthFailed, makeOwnDisks } from './spec.ts';
import { locateDisks, permanentFailure, RETRIES_EXHAUSTED, type Failure } from '../../storage/ports.ts';

/** Delay before the next attempt, as a share of the time since the request. */
const RETRY_SHARE = 1 / 4;

const GROW_LATER = 'The disk keeps its size. Expand it again after the operator has fixed the cause.';

/** Grows the instance's own disks to their desired sizes, also while it runs. */
export async function growDisks(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  const { deps } = context;
  const { instance } = state;
  try {
    await makeOwnDisks(context, instance);
  } catch (error) {
    if (!(error instanceof DisksFailed) && !(error instanceof DisksLost)) throw error;
    deps.log.warn({ id: instance.id, err: error }, error.message);
    const elapsedMs = deps.time.now() - instance.operation.startedAtMs;
    const failure = failureOf(error) ?? (elapsedMs > deps.limits.disksDeadlineMs ? RETRIES_EXHAUSTED : null);
    if (failure !== null) return { state: (await failGrowth(context, state, failure)).state, next: 'again' };
    const retryMs = Math.max(deps.limits.engineRetryMs, elapsedMs * RETRY_SHARE);
    return { state, next: Math.min(deps.limits.backOffMaxMs, retryMs) };
  }
  const atMs = deps.time.now();
  const expanded = { ...instance, operation: endOperation(instance.operation, 'Succeeded', atMs) };
  const alongside = (tx: Db) => publish(tx, expanded, { atMs, kind: 'instance.expanded' });
  return { state: await writeInstance(context, state, expanded, { alongside }), next: 'again' };
}

/**
 * At a start: returns null unless the growth of a disk failed for good and the disks can do without
 * it. `isLast`: the start has no attempt left.
 */
export async function continueWithoutGrowth(
  context: ReconcileContext,
  state: InstanceState,
  { error, isLast }: { error: unknown; isLast: boolean },
): Promise<StepResult | null> {
  if (!(error instanceof GrowthFailed)) return null;
  const failure = failureOf(error) ?? (isLast ? RETRIES_EXHAUSTED : null);
  if (failure === null) return null;
  const { state: next, fellBack } = await failGrowth(context, state, failure);
  return fellBack ? { state: withInstance(next, { attempts: 0 }), next: 'again' } : null;
}

function failureOf(error: DisksFailed | DisksLost): Failure | null {
  if (error instanceof DisksLost) return { reason: 'DisksLost', message: error.message };
  return error instanceof GrowthFailed ? permanentFailure(error.cause, undefined) : null;
}

/** Fails the operation of an expansion, and writes the actual sizes where they are smaller. */
async function failGrowth(
  context: ReconcileContext,
  state: InstanceState,
  failure: Failure,
): Promise<{ state: InstanceState; fellBack: boolean }> {
  const { deps, drivers } = context;
  const { instance } = state;
  const sizes = await smallerSizesOf(context, instance);
  const fellBack = sizes.dataDiskGB !== undefined || sizes.dockerStorageGB !== undefined;
  if (!fellBack && !isExpanding(instance)) return { state, fellBack };
  const atMs = deps.time.now();
  const next: Instance = {
    ...instance,
    spec: withSizes(instance.spec, sizes),
    operation: isExpanding(instance)
      ? failOperation(instance.operation, { ...failure, whatToDo: GROW_LATER }, atMs)
      : instance.operation,
  };
  const alongside = async (tx: Db): Promise<void> => {
    for (const disk of ownDisks(next, drivers.sharedDiskGB))
      if (sizeAmong(sizes, disk) !== undefined) await shrinkRow(tx, disk);
    await publish(tx, next, { atMs, kind: 'instance.expandFailed', failure });
  };
  const respec = (spec: InstanceSpec): InstanceSpec => withSizes(spec, sizes);
  return { state: await writeInstance(context, state, next, { alongside, respec }), fellBack };
}

const sizeAmong = ({ dataDiskGB: dataGB, dockerStorageGB }: DiskSizes, { kind }: DiskId): number | undefined =>
  kind === 'data' ? dataGB : kind === 'docker' ? dockerStorageGB : undefined;

async function shrinkRow(tx: Db, size: DiskId & CountedSize): Promise<void> {
  const disk = await lockDisk(tx, size);
  if (disk) await resizeDisk(tx, disk, size, { diskOvercommit: 1, evenIfFull: true });
}

/** Leaves out disks of unknown size, and those as large as desired. */
async function smallerSizesOf(context: ReconcileContext, { id }: Instance): Promise<DiskSizes> {
  const { deps, drivers, signal } = context;
  const sizes: DiskSizes = {};
  for (const disk of await locateDisks(deps.store.read, drivers, [dataDisk(id), dockerDisk(id)])) {
    const observed = await raceAbort(disk.storage.observe(disk), callDeadline(context)).catch(() => null);
    signal.throwIfAborted();
    if (observed?.kind !== 'present' || observed.sizeGB === null || observed.sizeGB >= disk.sizeGB) continue;
    if (disk.kind === 'data') sizes.dataDiskGB = observed.sizeGB;
    else sizes.dockerStorageGB = observed.sizeGB;
  }
  return sizes;
}

async function publish(
  tx: Db,
  { ownerId: accountId, id: subjectId, spec }: Instance,
  { atMs, kind, failure }: { atMs: number; kind: string; failure?: Failure },
): Promise<void> {
  const sizes = { dataDiskGB: dataDiskGB(spec), ...(spec.enableDocker ? { dockerStorageGB: dockerDiskGB(spec) } : {}) };
  await appendEvent(tx, { accountId, atMs, kind, subjectId, data: { ...sizes, ...failure } });
}
