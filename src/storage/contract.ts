/**
 * # The storage contract
 *
 * Hands for everything that outlives a container: volumes and their snapshots, data disks, the folder an account shares between its
 * instances, the room of a Docker inside. Each is a *disk*, known by a kind and an id, of a *pool*: one storage on one place of the host.
 * What every verb owes:
 *
 * - **Idempotent**: called twice, or again after it was cut off anywhere, it ends in the same place.
 * - **Nothing is half there**: a disk that `observe` calls present holds its whole size, and all of what it was made from.
 * - **One deed on a disk at a time**: the caller sees to that (`control/volumes/disk-mutex.ts`); deeds on different disks go side by side.
 * - **Nothing is deleted that this storage did not make itself**, and nothing while a container still uses it.
 * - What is not done for a caller's fault or a full host rejects with a `StorageFault`; anything else thrown is a fault of the host.
 *
 * The verbs are those that a cluster's claims have (provision, publish, expand, snapshot, list), so that one may stand behind it later.
 * `test/conformance/storage.ts` holds each storage to this page.
 */
import type { DiskId, DiskEntry } from '../domain/disk.ts';
import type { Space } from '../domain/pool.ts';

/** `sizeGB`: as it is now, which a grow that was cut off may have left smaller than was wished; null where sizes limit nothing. */
export type DiskObservation =
  { kind: 'unknown'; reason: string } | { kind: 'absent' } | { kind: 'present'; sizeGB: number | null };

/** What a storage can and can't do, as data: shown by the API, and asked before a wish is accepted. */
export interface StorageCapabilities {
  /** `hard`: writes past the size fail with ENOSPC, there and nowhere else. `soft`: usage is measured, nothing stops a writer. */
  sizeLimit: 'hard' | 'soft';
  /** How `usage` finds out: at once, or by a walk through all files, which is to be asked for sparingly. */
  usage: 'instant' | 'walk';
  /** A copy is of one moment whatever is being written (`atomic`), or of each file as it was found (`live`). */
  copies: 'atomic' | 'live';
  /** Carries overlay file systems, so that a Docker inside can keep its images there. */
  dockerInside: boolean;
}

/** Why a verb was refused. `text` is for people, and tells nothing of the host. */
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
   * Makes it, of `sizeGB` (2³⁰ bytes each), empty or with all that `from` holds, or leaves it as it is. `from` may be mounted, written to
   * and grown meanwhile; that it stays is the caller's to see to. A copy may take long; the signal ends it, and nothing of it is left to
   * be seen. One for which its place has no room is not begun. Faults: `full`, `notFound` (of `from`).
   */
  create(disk: DiskId, sizeGB: number, signal: AbortSignal, from?: DiskId): Promise<void>;
  /** Makes it larger, also while instances write to it; one that is as large already stays. Faults: `full`, `notFound`. */
  grow(disk: DiskId, sizeGB: number): Promise<void>;
  /**
   * The folder of the host that holds its files, there until `unmount` or a reboot. The folder above it is of the same file system, and
   * no instance has it: uploads come in there (`files/write.ts`), and what a dead server left of them goes when it is mounted anew.
   * Faults: `notFound`.
   */
  mount(disk: DiskId): Promise<string>;
  /** Takes the folder away; containers that have it keep it. Absent is success. Faults: `busy` while somebody on the host works in it. */
  unmount(disk: DiskId): Promise<void>;
  /** Whether it is there; quick, whatever it holds. */
  observe(disk: DiskId): Promise<DiskObservation>;
  /** Bytes that its files take. May be slow, never blocks the process; null when it is not there, or it can't be told now. */
  usage(disk: DiskId, signal: AbortSignal): Promise<number | null>;
  /**
   * The folders and files that take most of it, largest first, their paths safe to print; null while it is not mounted, or can't be told.
   * A walk through all its files: the signal ends it.
   */
  largestEntries(disk: DiskId, signal: AbortSignal): Promise<DiskEntry[] | null>;
  /** Removes it with all its files. Absent is success. Faults: `busy` while a container uses it. */
  destroy(disk: DiskId): Promise<void>;
  /** All that is there, also what is on its way in or out. */
  listOwned(): Promise<DiskId[]>;
  /** Those that `mount` made and `unmount` has not taken away; none where mounting costs nothing. */
  listMounted(): Promise<DiskId[]>;
  /** Of the place that the pool lies on. Rejects when that is not there. */
  space(): Promise<Space>;
}
