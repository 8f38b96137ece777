/**
 * Pools: places of the host that disks lie in, and how much of each may be promised. A region has the pool `default`, and one named for a
 * type of volume where the operator gives that type a place of its own. Pure.
 */
import { BYTES_PER_GB, type DiskKind } from './disk.ts';
import { volumeTypes, type VolumeType } from './volume.ts';

export const poolNames = ['default', ...volumeTypes] as const;
export type PoolName = (typeof poolNames)[number];

/** What the operator says of a pool. */
export interface PoolRules {
  /** Null: all that its place has room for. */
  sizeGB: number | null;
  /** How many times that may be promised: above 1 the operator counts on disks that stay emptier than they may be. */
  overcommit: number;
}

/** Of the place that a pool lies on. */
export interface Space {
  totalBytes: number;
  /** What this program may still write there. */
  freeBytes: number;
}

/** What is counted of a pool. */
export interface PoolUsage {
  limitGB: number;
  /** Promised to disks, whatever they hold. */
  usedGB: number;
}

/** What instances bring with them is of the faster type; what all of an account's instances share, of the other. */
export const volumeTypeOfDisk = (kind: Exclude<DiskKind, 'volume' | 'snapshot'>): VolumeType =>
  kind === 'shared' ? 'filesystem' : 'highspeedstorage';

const KEPT_FREE_SHARE = 0.05;
const KEPT_FREE_LEAST_BYTES = BYTES_PER_GB;
const KEPT_FREE_MOST_BYTES = 10 * BYTES_PER_GB;

/** Of each place, for the database, logs and what is written already. Nothing new is begun there once less is free. */
export const reservedBytes = (totalBytes: number): number =>
  Math.min(KEPT_FREE_MOST_BYTES, Math.max(KEPT_FREE_LEAST_BYTES, totalBytes * KEPT_FREE_SHARE));

export const isNearlyFull = ({ totalBytes, freeBytes }: Space): boolean => freeBytes < reservedBytes(totalBytes);

/** How much may be promised. `usageBytes`: what its disks hold already, which is not free and yet theirs. */
export function limitGB({ sizeGB, overcommit }: PoolRules, space: Space, usageBytes: number): number {
  if (sizeGB !== null) return Math.floor(sizeGB * overcommit);
  const roomBytes = Math.min(space.totalBytes, space.freeBytes + usageBytes) - reservedBytes(space.totalBytes);
  return Math.max(0, Math.floor((roomBytes / BYTES_PER_GB) * overcommit));
}

const NEARLY_PROMISED_SHARE = 0.9;
const NEARLY_FULL_FREE_SHARE = 0.1;

/** Whether the operator is to be told: most of it is promised, or its place is about to be full. */
export const wantsRoom = ({ limitGB: limit, usedGB }: PoolUsage, space: Space): boolean =>
  usedGB >= limit * NEARLY_PROMISED_SHARE ||
  space.freeBytes < Math.max(reservedBytes(space.totalBytes), space.totalBytes * NEARLY_FULL_FREE_SHARE);
