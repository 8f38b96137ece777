/**
 * Which disks are being worked in by this process, file by file, so that a sweep does not unmount what is in use, and a delete does
 * not wait for a transfer of hours: it cuts it off. Whoever holds a disk asks for its state and mounts it only then; whoever takes it
 * away writes that down first, and asks here only then: one of the two sees the other.
 */
import type { DiskId } from '../../domain/disk.ts';

export interface DiskUse {
  /** Aborts when the disk is taken away, or this process ends. */
  signal: AbortSignal;
  release(): void;
}

export interface DiskUses {
  /** The reason of the signal, when it aborts, is what `cut` or `stop` was given. */
  acquire(disk: DiskId): DiskUse;
  inUse(disk: DiskId): boolean;
  /** Ends all holds of a disk; resolves when they are released. */
  abort(disk: DiskId, reason: Error): Promise<void>;
  /** Ends all holds of all disks; those that are asked for later end at once. */
  stop(reason: Error): Promise<void>;
}

interface Use {
  ending: AbortController;
  released: Promise<void>;
}

export function makeDiskUses(): DiskUses {
  const uses = new Map<string, Set<Use>>();
  let stopped: Error | null = null;
  const keyOf = ({ kind, id }: DiskId): string => `${kind} ${id}`;
  const end = async (ended: Iterable<Use>, reason: Error): Promise<void> => {
    const all = [...ended];
    for (const { ending } of all) ending.abort(reason);
    await Promise.all(all.map(({ released }) => released));
  };
  return {
    acquire(disk) {
      const key = keyOf(disk);
      const { promise: released, resolve } = Promise.withResolvers<void>();
      const use = { ending: new AbortController(), released };
      const ofDisk = uses.get(key) ?? new Set<Use>();
      uses.set(key, ofDisk.add(use));
      if (stopped !== null) use.ending.abort(stopped);
      return {
        signal: use.ending.signal,
        release() {
          ofDisk.delete(use);
          if (ofDisk.size === 0 && uses.get(key) === ofDisk) uses.delete(key);
          resolve();
        },
      };
    },
    inUse: (disk) => uses.has(keyOf(disk)),
    abort: (disk, reason) => end(uses.get(keyOf(disk)) ?? [], reason),
    stop(reason) {
      stopped = reason;
      return end(
        [...uses.values()].flatMap((ofDisk) => [...ofDisk]),
        reason,
      );
    },
  };
}
