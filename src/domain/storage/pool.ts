/**
 * Pools: folders of the host for disks, with a limit on reserved sizes. A region has `default`, and
 * one per volume type with its own folder.
 */
import { BYTES_PER_GB, type CountedSpace, type DiskKind, type PoolName, type VolumeType } from './disk.ts';

export interface PoolRules {
  /** Null: all space of the folder. */
  sizeGB: number | null;
  /** Factor on the size; above 1 it counts on disks that stay emptier than reserved. */
  overcommit: number;
  /** GB of best-effort disks that count as one GB of the pool. */
  diskOvercommit: number;
  /** Largest share of what an account holds and what is free that the account may hold; (0, 1]. */
  accountShare: number;
}

export interface Space {
  totalBytes: number;
  freeBytes: number;
  /** Equal for two paths on one file system; absent: on no other path's. */
  device?: number;
}

export interface PoolUsage {
  limitGB: number;
  /** Promised. */
  usedGB: number;
  bestEffortGB: number;
}

export const freeGB = (
  { limitGB: limit, usedGB, bestEffortGB }: PoolUsage,
  { diskOvercommit }: Pick<PoolRules, 'diskOvercommit'>,
): number => Math.max(0, limit - usedGB - bestEffortGB / diskOvercommit);

/** GB of a pool that a disk takes. */
export const countedGB = (
  { promisedGB, bestEffortGB }: CountedSpace,
  { diskOvercommit }: Pick<PoolRules, 'diskOvercommit'>,
): number => promisedGB + bestEffortGB / diskOvercommit;

/** Setting with the rules of a pool. */
export const settingOf = (name: PoolName): string =>
  name === 'default' ? 'BERTH_POOL' : `BERTH_POOL_${name.toUpperCase()}`;

/**
 * Most GB that one account may hold: the share of what the account holds and what is free. So each
 * further account gets that share of the rest, and no account can close a pool to the others.
 */
export const accountLimitGB = (heldGB: number, free: number, { accountShare }: Pick<PoolRules, 'accountShare'>) =>
  Math.floor((heldGB + free) * accountShare);

/** Per-instance disks get the faster type, shared folders the other. */
export const volumeTypeOfDisk = (kind: Exclude<DiskKind, 'volume' | 'snapshot'>): VolumeType =>
  kind === 'shared' ? 'filesystem' : 'highspeedstorage';

export interface PoolAllocation {
  /** Part of the pool's limit; best-effort disks at most as far as the pool counts them. */
  heldBytes: number;
  /** To be kept free for promised disks. */
  unwrittenBytes: number;
}

export interface AllocatedDisk extends CountedSpace {
  heldBytes: number;
  /** Held once the whole disk is written. */
  maxBytes: number;
  /** Shares blocks with a copy or source: each block may be needed once more. */
  sharesBlocks: boolean;
  /** Its blocks count with the source. */
  isCopy: boolean;
  /** A snapshot: never written again. */
  isFinal: boolean;
}

export function allocationOf(
  disks: readonly AllocatedDisk[],
  { diskOvercommit }: Pick<PoolRules, 'diskOvercommit'>,
  canPromise: boolean,
): PoolAllocation {
  const sum = (bytesOf: (disk: AllocatedDisk) => number): number =>
    disks.reduce((total, disk) => total + bytesOf(disk), 0);
  const isPromised = ({ promisedGB }: AllocatedDisk): boolean => promisedGB > 0;
  const countedBytes = sum(({ bestEffortGB }) => (bestEffortGB * BYTES_PER_GB) / diskOvercommit);
  const promisedHeldBytes = sum((disk) =>
    isPromised(disk) && !(disk.sharesBlocks && disk.isCopy) ? disk.heldBytes : 0,
  );
  const bestEffortHeldBytes = sum((disk) => (isPromised(disk) ? 0 : disk.heldBytes));
  return {
    heldBytes: promisedHeldBytes + Math.min(bestEffortHeldBytes, countedBytes),
    unwrittenBytes: sum((disk) => {
      if (!canPromise || !isPromised(disk) || disk.isFinal) return 0;
      return disk.sharesBlocks ? disk.maxBytes : Math.max(0, disk.maxBytes - disk.heldBytes);
    }),
  };
}

const RESERVED_SHARE = 0.05;
const MIN_RESERVED_BYTES = BYTES_PER_GB;
const MAX_RESERVED_BYTES = 10 * BYTES_PER_GB;

/** Share of each file system that the operator keeps free; null: the default reserve. */
export type ReserveShare = number | null;

/** Kept free on each file system, for database and logs; no new disk is begun below. */
export const reservedBytes = (totalBytes: number, share: ReserveShare): number =>
  share === null
    ? Math.min(MAX_RESERVED_BYTES, Math.max(MIN_RESERVED_BYTES, totalBytes * RESERVED_SHARE))
    : totalBytes * share;

export const isNearlyFull = ({ totalBytes, freeBytes }: Space, share: ReserveShare): boolean =>
  freeBytes < reservedBytes(totalBytes, share);

/** `heldBytes`: what counted disks hold already, part of the limit. */
export function limitGB(
  { sizeGB, overcommit }: Pick<PoolRules, 'sizeGB' | 'overcommit'>,
  space: Space,
  heldBytes: number,
  share: ReserveShare,
): number {
  if (sizeGB !== null) return Math.floor(sizeGB * overcommit);
  const availableBytes =
    Math.min(space.totalBytes, space.freeBytes + heldBytes) - reservedBytes(space.totalBytes, share);
  return Math.max(0, Math.floor((availableBytes / BYTES_PER_GB) * overcommit));
}

/**
 * Warning when root disks share a file system with pools or the database; null without a reason.
 */
export function sharedFileSystemText(pools: readonly string[], withDatabase: boolean): string | null {
  const others = [...pools.map((name) => `the pool ${name}`), ...(withDatabase ? ['the database'] : [])];
  if (others.length === 0) return null;
  return `root disks of instances share a file system with ${others.join(' and ')}: without other limits an instance can fill it within a second. Volumes keep their space, and Berth stops what grows too far, but give the pools or the data of the engine a file system of their own (docs/operate.md, "A host that fills up")`;
}

const NEARLY_ALLOCATED_FREE_SHARE = 0.1;
const NEARLY_FULL_FREE_SHARE = 0.1;

/** Whether to warn the operator: most is reserved, or the file system nearly full. */
export const isShortOfSpace = (
  pool: PoolUsage,
  rules: Pick<PoolRules, 'diskOvercommit'>,
  space: Space,
  share: ReserveShare,
): boolean =>
  freeGB(pool, rules) <= pool.limitGB * NEARLY_ALLOCATED_FREE_SHARE ||
  space.freeBytes < Math.max(reservedBytes(space.totalBytes, share), space.totalBytes * NEARLY_FULL_FREE_SHARE);
