/**
 * # The storage contract
 *
 * Drivers for everything that outlives a container: volumes and their snapshots, data disks, the
 * folder an account shares between its instances, the storage of a Docker inside. A *disk* has a
 * kind and an id and belongs to a *pool*, one storage at one path of the host. Every verb:
 *
 * - **Idempotent**: a second call, or a call after an interruption, ends in the same state.
 * - **Atomic**: a disk that `observe` reports present has its full size and all source data.
 * - **Serialized per disk** by the caller (`control/volumes/disk-mutex.ts`); disks are independent.
 * - **Safe**: deletes only disks of its own making, and no disk in use by a container.
 * - Rejects with a `StorageFault` for a mistake of the caller or a full host; other errors are faults of the host.
 *
 * The verbs match the persistent volume claims of a cluster (provision, publish, expand, snapshot,
 * list). `test/conformance/storage.ts` checks every driver against this page.
 */
import type { DiskId, DiskEntry } from '../domain/disk.ts';
import type { Space } from '../domain/pool.ts';

/**
 * `sizeGB`: current size, smaller than requested after an interrupted grow; null without limits.
 */
export type DiskObservation =
  { kind: 'unknown'; reason: string } | { kind: 'absent' } | { kind: 'present'; sizeGB: number | null };

/** Capabilities as data: shown by the API, and checked before a request is accepted. */
export interface StorageCapabilities {
  /** `hard`: writes past the size fail with ENOSPC. `soft`: usage is only measured. */
  sizeLimit: 'hard' | 'soft';
  /** `walk`: `usage` reads all files, so callers should ask rarely. */
  usage: 'instant' | 'walk';
  /** A copy shows one moment (`atomic`), or each file at the time it was read (`live`). */
  copies: 'atomic' | 'live';
  /** Supports overlay file systems, for the images of a Docker inside. */
  dockerInside: boolean;
}

/** Refusal of a verb. `text` is for people, and reveals nothing of the host. */
export class StorageFault extends Error {
  readonly kind: 'busy' | 'full' | 'notFound' | 'unsupported';
  constructor(kind: StorageFault['kind'], text: string, cause?: unknown) {
    super(text, { cause });
    this.kind = kind;
  }
}

export interface Storage {
  capabilities(): StorageCapabilities;
  /**
   * Creates the disk with `sizeGB` (2³⁰ bytes each), empty or as a copy of `from`; keeps an
   * existing disk. `from` may be mounted, written to and grown meanwhile, but not destroyed. A copy
   * may take long; an abort leaves nothing visible. Faults: `full` (before a copy starts),
   * `notFound` (of `from`).
   */
  create(disk: DiskId, sizeGB: number, signal: AbortSignal, from?: DiskId): Promise<void>;
  /** Enlarges, also while instances write; never shrinks. Faults: `full`, `notFound`. */
  grow(disk: DiskId, sizeGB: number): Promise<void>;
  /**
   * Returns the folder of the host with the disk's files, valid until `unmount` or a reboot. Its
   * parent is on the same file system and in no instance: uploads are staged there
   * (`files/write.ts`), and leftovers of a crashed server are removed by the next mount. Faults:
   * `notFound`.
   */
  mount(disk: DiskId): Promise<string>;
  /**
   * Unmounts on the host; containers keep their mount. Absent is success. Faults: `busy` while a
   * process of the host uses the disk.
   */
  unmount(disk: DiskId): Promise<void>;
  /** Fast at any disk size. */
  observe(disk: DiskId): Promise<DiskObservation>;
  /** Bytes used by files; null when absent or unreadable. May be slow, never blocks the process. */
  usage(disk: DiskId, signal: AbortSignal): Promise<number | null>;
  /**
   * Largest folders and files, largest first, with printable paths; null when unmounted or
   * unreadable. Walks all files, until the signal.
   */
  largestEntries(disk: DiskId, signal: AbortSignal): Promise<DiskEntry[] | null>;
  /**
   * Removes the disk with all files. Absent is success. Faults: `busy` while in use by a container.
   */
  destroy(disk: DiskId): Promise<void>;
  /** Lists all disks, including half-created and half-destroyed ones. */
  listOwned(): Promise<DiskId[]>;
  /** Lists disks mounted by `mount`; empty where mounting costs nothing. */
  listMounted(): Promise<DiskId[]>;
  /** Space of the file system that holds the pool. Rejects when the pool is missing. */
  space(): Promise<Space>;
}
