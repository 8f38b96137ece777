/**
 * Disks this process works in: never unmounted, and aborted by a delete. A user acquires the disk
 * before reading its state; a delete writes the state before `abort`: one always sees the other.
 */
import { diskKey, type DiskId } from '../../domain/storage/disk.ts';

export interface DiskHold {
  signal: AbortSignal;
  release(): void;
}

export interface DiskHolders {
  acquire(disk: DiskId): DiskHold;
  inUse(disk: DiskId): boolean;
  /** Aborts all uses of a disk with `reason`; resolves when all are released. */
  abort(disk: DiskId, reason: Error): Promise<void>;
  stop(reason: Error): Promise<void>;
}

interface Use {
  controller: AbortController;
  released: Promise<void>;
}

export function makeDiskHolders(): DiskHolders {
  const uses = new Map<string, Set<Use>>();
  let stopped: Error | null = null;
  const end = async (open: Iterable<Use>, reason: Error): Promise<void> => {
    const all = [...open];
    for (const { controller } of all) controller.abort(reason);
    await Promise.all(all.map(({ released }) => released));
  };
  return {
    acquire(disk) {
      const key = diskKey(disk);
      const { promise: released, resolve } = Promise.withResolvers<void>();
      const use = { controller: new AbortController(), released };
      const ofDisk = uses.get(key) ?? new Set<Use>();
      uses.set(key, ofDisk.add(use));
      if (stopped !== null) use.controller.abort(stopped);
      return {
        signal: use.controller.signal,
        release() {
          ofDisk.delete(use);
          if (ofDisk.size === 0 && uses.get(key) === ofDisk) uses.delete(key);
          resolve();
        },
      };
    },
    inUse: (disk) => uses.has(diskKey(disk)),
    abort: (disk, reason) => end(uses.get(diskKey(disk)) ?? [], reason),
    stop(reason) {
      stopped = reason;
      const all = [...uses.values()].flatMap((ofDisk) => [...ofDisk]);
      return end(all, reason);
    },
  };
}
