/**
 * Frame of the reconcilers of volumes and snapshots. Storage operations are retried with back-off,
 * then fail permanently: only the operator can help. Attempts are counted in memory per generation,
 * so a restart or a new request starts from zero.
 */
import { raceAbort } from '../../async/abort.ts';
import type { DiskId } from '../../domain/storage/disk.ts';
import { backOffMs, type Limits } from '../../domain/compute/instance-states.ts';
import type { Snapshot } from '../../domain/storage/snapshot.ts';
import type { Volume, VolumeObservation, VolumeSourceKind } from '../../domain/storage/volume.ts';
import { StorageFault } from '../../storage/contract.ts';
import { deleteDisks } from '../../store/tables/disks.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { deleteLeasedRow } from '../../store/tables/operations.ts';
import type { LeaseGuard } from '../../store/db/leases.ts';
import { locateDisks, withDiskMutex, type LocatedDisk } from './disks.ts';
import type { HeldDisks } from './held-disks.ts';
import type { TaskDeps, LeasedRow, ReconcileResult } from '../kernel/ports.ts';
import type { MeteredDeps } from '../money/ports.ts';

export const OBSERVE_AGAIN_MS = 5_000;
export const IN_USE_RETRY_MS = 1_000;

export interface DiskReconcilerDeps
  extends Pick<TaskDeps, 'store' | 'regions' | 'time' | 'log'>, Pick<MeteredDeps, 'metering'> {
  limits: Pick<Limits, 'maxDiskAttempts' | 'backOffBaseMs' | 'backOffMaxMs'>;
  heldDisks: Pick<HeldDisks, 'watch'>;
}

/** Members that a volume and a snapshot share. */
type Subject = Pick<Volume | Snapshot, 'id' | 'ownerId' | 'regionId' | 'generation' | 'operation' | 'status'>;

export interface Failure {
  reason: string;
  message: string;
}

export type AttemptResult = 'done' | { retryInMs: number } | { failure: Failure };

export interface DiskWork<OneSubject> {
  subject: OneSubject;
  guard: LeaseGuard;
  signal: AbortSignal;
  observe(disk: LocatedDisk): Promise<VolumeObservation>;
  /** Treats `notFound` as permanent with `from`, the source of a copy; else the caller observes. */
  attempt(disk: LocatedDisk, operation: (signal: AbortSignal) => Promise<void>, from?: DiskId): Promise<AttemptResult>;
  deleteRow(): Promise<ReconcileResult>;
}

interface DiskReconciler<Row, OneSubject> {
  kind: VolumeSourceKind;
  fromRow: (row: Row) => OneSubject;
  reconcile: (work: DiskWork<OneSubject>, disk: LocatedDisk) => Promise<ReconcileResult>;
}

/** Without a disk, a Terminating row is deleted and a Failed one rests. */
export function makeDiskReconciler<Row extends { id: string }, OneSubject extends Subject>(
  { store, regions, time, limits, log }: DiskReconcilerDeps,
  { kind, fromRow, reconcile }: DiskReconciler<Row, OneSubject>,
) {
  const retries = makeStorageRetries({ limits, log });
  return async ({ row, leaseToken, signal }: LeasedRow<Row>): Promise<ReconcileResult> => {
    const subject = fromRow(row);
    const { id, ownerId: accountId, regionId, status, generation } = subject;
    const guard = { id, leaseToken, generation };
    const work: DiskWork<OneSubject> = {
      subject,
      guard,
      signal,
      observe(disk) {
        signal.throwIfAborted();
        return raceAbort(disk.storage.observe(disk), signal);
      },
      attempt: (...attempted) => retries.attempt(guard, signal, ...attempted),
      async deleteRow() {
        const gone = await store.write(async (tx) => {
          if (!(await deleteLeasedRow(tx, kind, guard, subject, time.now()))) return false;
          await deleteDisks(tx, [{ kind, id }]);
          await appendEvent(tx, { accountId, atMs: time.now(), kind: `${kind}.removed`, subjectId: id, data: {} });
          return true;
        });
        return gone ? 'gone' : { dueAtMs: time.now() };
      },
    };
    if (status === 'Terminating') retries.reset(id);
    const [disk] = await locateDisks(store.read, regions.of(regionId), [{ kind, id }]);
    if (disk) return reconcile(work, disk);
    if (status === 'Terminating') return work.deleteRow();
    if (status === 'Failed') return { dueAtMs: null };
    throw new Error(`no disk row for ${kind} ${id}`);
  };
}

/** Returns false while the storage says that the disk is in use. */
export async function destroyDisk(
  { heldDisks, signal }: Pick<DiskReconcilerDeps, 'heldDisks'> & { signal: AbortSignal },
  disk: LocatedDisk,
): Promise<boolean> {
  try {
    await heldDisks.watch(disk, () => withDiskMutex(disk, () => disk.storage.destroy(disk), signal));
    return true;
  } catch (error) {
    if (error instanceof StorageFault && error.kind === 'busy') return false;
    throw error;
  }
}

function makeStorageRetries({ limits, log }: Pick<DiskReconcilerDeps, 'limits' | 'log'>) {
  const failures = new Map<string, { generation: number; attempts: number }>();

  function afterFault({ id, generation }: LeaseGuard, err: unknown): AttemptResult {
    const before = failures.get(id);
    const attempts = before?.generation === generation ? before.attempts + 1 : 1;
    const left = limits.maxDiskAttempts - attempts;
    log.error({ id, err, left }, 'a storage operation failed');
    if (left <= 0) return { failure: RETRIES_EXHAUSTED };
    failures.set(id, { generation, attempts });
    return { retryInMs: backOffMs(attempts, limits) };
  }

  /** Counts no attempt: the subject waits for its storage, however long. */
  function afterSilence({ id }: LeaseGuard, err: unknown): AttemptResult {
    log.warn({ id, err }, 'the storage of a disk does not answer; Berth retries');
    return { retryInMs: backOffMs(1, limits) };
  }

  return {
    async attempt(
      row: LeaseGuard,
      signal: AbortSignal,
      ...[disk, operation, from]: Parameters<DiskWork<Subject>['attempt']>
    ): Promise<AttemptResult> {
      let result: AttemptResult;
      try {
        await withDiskMutex(disk, () => operation(signal), signal);
        result = 'done';
      } catch (error) {
        signal.throwIfAborted();
        const failure = permanentFailure(error, from);
        if (failure !== null) result = { failure };
        else if (isStorageAway(error)) result = afterSilence(row, error);
        else result = afterFault(row, error);
      }
      if (result === 'done' || 'failure' in result) failures.delete(row.id);
      return result;
    },
    reset: (id: string) => void failures.delete(id),
  };
}

export const isStorageAway = (error: unknown): boolean => error instanceof StorageFault && error.kind === 'away';

/** Leaves out the fault's message, which may describe the host: the log has it. */
export const RETRIES_EXHAUSTED: Failure = {
  reason: 'StorageFailed',
  message: 'the storage of the region failed at every attempt',
};

export function permanentFailure(error: unknown, from: DiskId | undefined): Failure | null {
  if (!(error instanceof StorageFault)) return null;
  const { kind, message } = error;
  switch (kind) {
    case 'full':
      return { reason: 'StorageFull', message };
    case 'notFound':
      return from === undefined ? null : { reason: 'SourceGone', message };
    case 'unsupported':
      return { reason: 'Unsupported', message };
    case 'busy':
    case 'away':
      return null;
    default:
      return kind satisfies never;
  }
}
