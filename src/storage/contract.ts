/**
 * # The storage contract
 *
 * Hands for everything that outlives a container: volumes, data disks, the folder an account shares between its instances.
 * Each is a *disk*, known by a kind and an id; the engine mounts the host folder that `mount` answers. Every verb is idempotent.
 * Nothing is deleted that this storage did not make itself.
 */
export type DiskKind = 'volume' | 'data' | 'shared';

export interface DiskId {
  kind: DiskKind;
  /** Volume id, instance id, or `<userId>/<regionId>` of a shared folder. */
  id: string;
}

export type DiskObservation = { kind: 'unknown'; reason: string } | { kind: 'absent' } | { kind: 'present' };

export interface StorageCapabilities {
  /** `hard`: writes past the size fail. `soft`: usage is measured, nothing stops a writer. */
  sizeLimit: 'hard' | 'soft';
  snapshots: boolean;
}

export interface Storage {
  capabilities(): StorageCapabilities;
  /** Makes it, empty, or leaves it as it is. */
  create(disk: DiskId, sizeGB: number): Promise<void>;
  /** The folder of the host that holds its files. Rejects when it does not exist. */
  mount(disk: DiskId): Promise<string>;
  /** Whether it is there; quick, whatever it holds. */
  observe(disk: DiskId): Promise<DiskObservation>;
  /** Bytes that its files take. May be slow, never blocks the process; null when it can't be told. */
  usage(disk: DiskId, signal: AbortSignal): Promise<number | null>;
  /** Removes it with all its files. Absent is success. */
  destroy(disk: DiskId): Promise<void>;
  listOwned(): Promise<DiskId[]>;
}
