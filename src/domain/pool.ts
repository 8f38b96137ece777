/**
 * Pools: folders of the host for disks, with a limit on reserved sizes. A region has `default`, and
 * one per volume type with its own folder.
 */
import { BYTES_PER_GB, type DiskKind, type VolumeType } from './disk.ts';

export interface PoolRules {
  /** Null: all space of the folder. */
  sizeGB: number | null;
  /** Factor on the size; above 1 it counts on disks that stay emptier than reserved. */
  overcommit: number;
}

export interface Space {
  totalBytes: number;
  /** Writable by this process. */
  freeBytes: number;
}

export interface PoolUsage {
  limitGB: number;
  usedGB: number;
}

/** Per-instance disks get the faster type, shared folders the other. */
export const volumeTypeOfDisk = (kind: Exclude<DiskKind, 'volume' | 'snapshot'>): VolumeType =>
  kind === 'shared' ? 'filesystem' : 'highspeedstorage';

const RESERVED_SHARE = 0.05;
const MIN_RESERVED_BYTES = BYTES_PER_GB;
const MAX_RESERVED_BYTES = 10 * BYTES_PER_GB;

/** Kept free on each file system, for database and logs; no new disk is begun below. */
export const reservedBytes = (totalBytes: number): number =>
  Math.min(MAX_RESERVED_BYTES, Math.max(MIN_RESERVED_BYTES, totalBytes * RESERVED_SHARE));

export const isNearlyFull = ({ totalBytes, freeBytes }: Space): boolean => freeBytes < reservedBytes(totalBytes);

/** `usageBytes`: data on its disks, part of the limit. */
export function limitGB({ sizeGB, overcommit }: PoolRules, space: Space, usageBytes: number): number {
  if (sizeGB !== null) return Math.floor(sizeGB * overcommit);
  const availableBytes = Math.min(space.totalBytes, space.freeBytes + usageBytes) - reservedBytes(space.totalBytes);
  return Math.max(0, Math.floor((availableBytes / BYTES_PER_GB) * overcommit));
}

const NEARLY_PROMISED_SHARE = 0.9;
const NEARLY_FULL_FREE_SHARE = 0.1;

/** Whether to warn the operator: most is reserved, or the file system nearly full. */
export const isShortOfSpace = ({ limitGB: limit, usedGB }: PoolUsage, space: Space): boolean =>
  usedGB >= limit * NEARLY_PROMISED_SHARE ||
  space.freeBytes < Math.max(reservedBytes(space.totalBytes), space.totalBytes * NEARLY_FULL_FREE_SHARE);
