/**
 * Retries storage operations with back-off, then fails permanently: only the operator can help.
 * Attempts are counted in memory per generation, so a restart or a new request starts from zero.
 */
import type { DiskId } from '../../domain/disk.ts';
import { backOffMs, type Limits } from '../../domain/instance-states.ts';
import { StorageFault } from '../../storage/contract.ts';
import { withDiskMutex } from './disk-mutex.ts';
import type { LocatedDisk } from './disks.ts';
import type { LeasedRow } from '../base/reconcile-loop.ts';
import type { Log } from '../base/log.ts';

export interface Failure {
  reason: string;
  message: string;
}

export type AttemptResult = 'done' | { retryInMs: number } | { failure: Failure };

type Row = Pick<LeasedRow<{ id: string; generation: number }>, 'row' | 'signal'>;

export interface StorageRetries {
  /** Treats `notFound` as permanent with `from`, the source of a copy; else the caller observes. */
  attempt(
    leased: Row,
    disk: LocatedDisk,
    operation: (signal: AbortSignal) => Promise<void>,
    from?: DiskId,
  ): Promise<AttemptResult>;
  reset(id: string): void;
}

export interface StorageRetriesDeps {
  limits: Pick<Limits, 'maxDiskAttempts' | 'backOffBaseMs' | 'backOffMaxMs'>;
  log: Pick<Log, 'error'>;
}

export function makeStorageRetries({ limits, log }: StorageRetriesDeps): StorageRetries {
  const failures = new Map<string, { generation: number; attempts: number }>();

  function afterFault({ id, generation }: Row['row'], err: unknown): AttemptResult {
    const before = failures.get(id);
    const attempts = before?.generation === generation ? before.attempts + 1 : 1;
    const left = limits.maxDiskAttempts - attempts;
    log.error({ id, err, left }, 'a storage operation failed');
    if (left <= 0) return { failure: RETRIES_EXHAUSTED };
    failures.set(id, { generation, attempts });
    return { retryInMs: backOffMs(attempts, limits) };
  }

  return {
    async attempt({ row, signal }, disk, operation, from) {
      let result: AttemptResult;
      try {
        await withDiskMutex(disk.storage, disk, () => operation(signal), signal);
        result = 'done';
      } catch (error) {
        signal.throwIfAborted();
        const failure = permanentFailure(error, from);
        result = failure === null ? afterFault(row, error) : { failure };
      }
      if (result === 'done' || 'failure' in result) failures.delete(row.id);
      return result;
    },
    reset: (id) => void failures.delete(id),
  };
}

/** Leaves out the fault's message, which may describe the host: the log has it. */
const RETRIES_EXHAUSTED: Failure = {
  reason: 'StorageFailed',
  message: 'the storage of the region could not do it, however often it was tried',
};

function permanentFailure(error: unknown, from: DiskId | undefined): Failure | null {
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
      return null;
    default:
      return kind satisfies never;
  }
}
