/** Disks: storage that outlives containers, reserved from the request until removal. */
import type { RegionId, UserId } from '../kernel/ids.ts';

export const mountedDiskKinds = ['data', 'docker', 'shared', 'volume'] as const;
export const diskKinds = [...mountedDiskKinds, 'snapshot'] as const;
export type DiskKind = (typeof diskKinds)[number];

export const volumeTypes = ['filesystem', 'highspeedstorage'] as const;
export type VolumeType = (typeof volumeTypes)[number];

/** Pools of a region: `default`, and one per volume type with its own folder. */
export const poolNames = ['default', ...volumeTypes] as const;
export type PoolName = (typeof poolNames)[number];

/** `hard`: writes past the size fail with ENOSPC. `soft`: usage is only measured. */
export const sizeLimits = ['hard', 'soft'] as const;
export type SizeLimit = (typeof sizeLimits)[number];

export interface DiskId {
  kind: DiskKind;
  /** Volume, snapshot or instance id, or `<userId>/<regionId>` of a shared folder. */
  id: string;
}

/** Disk space counted in a pool, in units of 2³⁰ bytes. */
export interface CountedSpace {
  /** Always there: the host allocates these blocks, or keeps them free. 0, or the disk's size. */
  promisedGB: number;
  /** Provisioned beyond what there is. A data disk counts its instance's root disk, too. */
  bestEffortGB: number;
}

export interface CountedSize extends CountedSpace {
  /** Units of 2³⁰ bytes. */
  sizeGB: number;
}

export interface Disk extends DiskId, CountedSize {
  regionId: RegionId;
  pool: PoolName;
  ownerId: UserId;
  /** An absent provisioned disk of an instance is lost, and not created again. */
  provisioned: boolean;
  usageBytes: number;
  /** Highest level of `WARN_AT_PERCENT` that the owner was warned of. */
  warnedPercent: number;
}

/** Path relative to the disk's root. */
export interface DiskEntry {
  path: string;
  bytes: number;
}

export interface FullDisk {
  disk: 'root' | DiskKind;
  mountPath: string;
  percent: number;
  biggest: DiskEntry[];
}

export interface DiskUsage {
  rootBytes: number;
  dataBytes: number;
  dockerBytes: number;
  /** Like `Disk.warnedPercent`; the root disk has no row of its own. */
  rootWarnedPercent: number;
  full: FullDisk[];
}

/** Counted space of a new disk whose blocks are always there. */
export const promised = (sizeGB: number) => ({ sizeGB, promisedGB: sizeGB, bestEffortGB: 0 });

/** Counted space of a new disk that is provisioned beyond what there is. */
export const bestEffort = (sizeGB: number) => ({ sizeGB, promisedGB: 0, bestEffortGB: sizeGB });

/** A data disk after its instance got a larger type: its size stays promised, or best effort. */
export const resizedBy = ({ sizeGB, promisedGB, bestEffortGB }: Disk, moreGB: number, moreRootGB: number) =>
  promisedGB > 0
    ? { sizeGB: sizeGB + moreGB, promisedGB: promisedGB + moreGB, bestEffortGB: bestEffortGB + moreRootGB }
    : { sizeGB: sizeGB + moreGB, promisedGB, bestEffortGB: bestEffortGB + moreGB + moreRootGB };

export const noUsage: DiskUsage = { rootBytes: 0, dataBytes: 0, dockerBytes: 0, rootWarnedPercent: 0, full: [] };

export const BYTES_PER_GB = 1024 ** 3;

/** Rounded to a thousandth. */
export const inGB = (bytes: number): number => Math.round((bytes / BYTES_PER_GB) * 1000) / 1000;

const ID_PART = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** Whether a storage can name a disk by this id. */
export function isDiskId({ kind, id }: DiskId): boolean {
  const parts = id.split('/');
  return parts.length === (kind === 'shared' ? 2 : 1) && parts.every(isIdPart);
}

export const isIdPart = (text: string): boolean => ID_PART.test(text);

export const diskKey = ({ kind, id }: DiskId): string => `${kind}/${id}`;
