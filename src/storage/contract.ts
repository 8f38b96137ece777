/**
 * # The storage contract
 *
 * Drivers for disks, which outlive containers. A disk has a kind and an id, and belongs to a
 * *pool*: a path of the host, or a class of a cluster. Every verb is idempotent, also after an
 * interruption. A disk reported present is complete. The caller runs one verb per disk at a time
 * (`control/storage/disks.ts`). Nothing foreign or in use by a container is deleted. A mistake
 * of the caller and a full host reject with `StorageFault`, faults of the host with any other error
 * (`test/conformance/storage.ts`).
 */
import type { Consistency } from '../domain/storage/snapshot.ts';
import type { DiskId, DiskEntry, SizeLimit } from '../domain/storage/disk.ts';
import type { Space } from '../domain/storage/pool.ts';
import type { DiskFiles } from './files.ts';

/**
 * `sizeGB`: current size, smaller than requested after an interrupted grow; null without limits.
 * `fault`: for people, where the storage does not answer or refuses Berth.
 */
export type DiskObservation =
  | { kind: 'unknown'; reason: string; fault?: StorageFault }
  | { kind: 'absent' }
  | { kind: 'present'; sizeGB: number | null };

export interface StorageCapabilities {
  sizeLimit: SizeLimit;
  /**
   * `walk`: `usage` reads all files, so callers should ask rarely. `mounted`: known while an
   * instance mounts the disk.
   */
  usage: 'instant' | 'walk' | 'mounted';
  /**
   * A copy shows one moment and shares the source's blocks (`atomic`), or shows each file at the
   * time it was read (`live`).
   */
  copies: Consistency;
  /** Reason why disks cannot be copied: `create` refuses a source as `unsupported`. */
  whyNoCopies?: string;
  /** Reason why disks keep the size of their creation: `grow` refuses a larger one. */
  whyNoGrowth?: string;
  /** Supports the overlay file systems of a Docker inside. */
  dockerInside: boolean;
  /** A disk is mounted on one node at a time, so all its instances run there. */
  oneNode?: true;
}

export interface HostProcess {
  pid: number;
  command: string;
}

/** Refusal of a verb. `text` is for people, and reveals nothing of the host. */
export class StorageFault extends Error {
  /** `away`: the storage does not answer, or refuses Berth; may pass. */
  readonly kind: 'busy' | 'full' | 'notFound' | 'unsupported' | 'away';
  /** Some processes that hold a busy disk, for operators; empty if none was found. */
  readonly users: readonly HostProcess[];
  constructor(kind: StorageFault['kind'], text: string, cause?: unknown, users: readonly HostProcess[] = []) {
    super(text, { cause });
    this.kind = kind;
    this.users = users;
  }
}

export const diskNotFound = ({ kind, id }: DiskId, cause?: unknown): StorageFault =>
  new StorageFault('notFound', `the ${kind} disk ${id} does not exist`, cause);

/** Disk to create or grow. Blocks of a promised disk are allocated at once in a thick pool. */
export interface DiskToMake extends DiskId {
  promisedGB?: number | undefined;
}

export interface Allocation {
  heldBytes: number;
  /** Held once the whole disk is written. */
  maxBytes: number;
}

export interface Storage {
  capabilities(): StorageCapabilities;
  /**
   * Creates an empty disk of `sizeGB` (2³⁰ bytes each), or a copy of `from`, which may be in use
   * but not destroyed. Keeps an existing disk. Copies may take long; an abort leaves nothing
   * visible. Faults: `full` (before a copy starts), `notFound` (of `from`).
   */
  create(disk: DiskToMake, sizeGB: number, signal: AbortSignal, from?: DiskId): Promise<void>;
  /**
   * Enlarges, also while instances write; never shrinks. Allocates the missing blocks of a promised
   * disk in a thick pool, also at the present size. Faults: `full`, `notFound`.
   */
  grow(disk: DiskToMake, sizeGB: number): Promise<void>;
  /**
   * Returns the source of the engine's mount, opaque to others and valid until `unmount` or a
   * reboot: a folder of the host, or a name that the region's engine knows. Faults: `notFound`.
   */
  mount(disk: DiskId): Promise<string>;
  /** Opens the files, valid until `unmount` or a reboot. Faults: `notFound`. */
  files(disk: DiskId): Promise<DiskFiles>;
  /** Keeps mounts of containers. Absent is success. Faults: `busy` (in use by a host process). */
  unmount(disk: DiskId): Promise<void>;
  observe(disk: DiskId): Promise<DiskObservation>;
  /** Bytes used by files; null when absent or unreadable. May be slow, never blocks the process. */
  usage(disk: DiskId, signal: AbortSignal): Promise<number | null>;
  /** Null when absent, or unknown without a walk. Cheap enough for every second. */
  allocation(disk: DiskId): Promise<Allocation | null>;
  /** Largest first, with printable paths; null when unmounted or unreadable. Walks all files. */
  largestEntries(disk: DiskId, signal: AbortSignal): Promise<DiskEntry[] | null>;
  /**
   * Removes the disk with all files. Absent is success. Faults: `busy` while a container or another
   * mount namespace of the host has it mounted.
   */
  destroy(disk: DiskId): Promise<void>;
  /** Includes half-created and half-destroyed disks. */
  listOwned(): Promise<DiskId[]>;
  /** Disks mounted by `mount` or `files`; empty where mounting costs nothing. */
  listMounted(): Promise<DiskId[]>;
  /** Space of the file system that holds the pool. Rejects when the pool is missing. */
  space(): Promise<Space>;
}
