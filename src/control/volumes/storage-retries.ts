/**
 * What a pass asks of a storage that may fail by a fault of the host: it is tried a few times, less and less often, and then given up, so that
 * nobody waits without end for what only the operator can mend. A server that starts anew, and a new wish, begin from the first try.
 */
import type { DiskId } from '../../domain/disk.ts';
import { backOffMs, type Limits } from '../../domain/instance-states.ts';
import { StorageFault } from '../../storage/contract.ts';
import { inTurn } from './disk-mutex.ts';
import type { LocatedDisk } from './disks.ts';
import type { Held } from '../base/reconcile-loop.ts';
import type { Log } from '../base/log.ts';

export interface Failure {
  reason: string;
  message: string;
}

/** Done; tried again so many milliseconds later; or never, and why. */
export type AttemptResult = 'done' | { againMs: number } | { never: Failure };

type Row = Pick<Held<{ id: string; generation: number }>, 'row' | 'signal'>;

export interface StorageRetries {
  /** In the disk's turn. `from`: what it copies, which nobody brings back; a disk that is itself gone is looked at again. */
  attempt(
    held: Row,
    disk: LocatedDisk,
    deed: (signal: AbortSignal) => Promise<void>,
    from?: DiskId,
  ): Promise<AttemptResult>;
  forget(id: string): void;
}

export interface StorageRetriesDeps {
  limits: Pick<Limits, 'maxDiskAttempts' | 'backOffBaseMs' | 'backOffMaxMs'>;
  log: Pick<Log, 'error'>;
}

export function makeStorageRetries({ limits, log }: StorageRetriesDeps): StorageRetries {
  const failed = new Map<string, { generation: number; attempts: number }>();

  function afterFault({ id, generation }: Row['row'], err: unknown): AttemptResult {
    const before = failed.get(id);
    const attempts = before?.generation === generation ? before.attempts + 1 : 1;
    const left = limits.maxDiskAttempts - attempts;
    log.error({ id, err, left }, 'a storage could not do what it should');
    if (left <= 0) return { never: GIVEN_UP };
    failed.set(id, { generation, attempts });
    return { againMs: backOffMs(attempts, limits) };
  }

  return {
    async attempt({ row, signal }, disk, deed, from) {
      let came: AttemptResult;
      try {
        await inTurn(disk.storage, disk, () => deed(signal), signal);
        came = 'done';
      } catch (error) {
        signal.throwIfAborted();
        const never = whyNever(error, from);
        came = never === null ? afterFault(row, error) : { never };
      }
      if (came === 'done' || 'never' in came) failed.delete(row.id);
      return came;
    },
    forget: (id) => void failed.delete(id),
  };
}

/** Its own words may tell of the host: they are for the log alone. */
const GIVEN_UP: Failure = {
  reason: 'StorageFailed',
  message: 'the storage of the region could not do it, however often it was tried',
};

function whyNever(error: unknown, from: DiskId | undefined): Failure | null {
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
