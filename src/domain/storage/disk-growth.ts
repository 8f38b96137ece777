/**
 * # Stops of instances that fill the host
 *
 * Promised disks (volumes, data disks of a requested size) always have their blocks: the host
 * allocates them, or keeps as much free as they have not written. Root disks, base data disks,
 * Docker disks and shared folders are best effort: together they may be larger than the host.
 *
 *     headroom = free space - unwritten blocks of promised disks - reserve
 *
 * Two rules, for each file system:
 *
 * - **Over size.** A root disk without a hard limit is past its size plus a tolerance, and grew in
 *   this run. The tolerance is a tenth of the size, and at most a quarter of the headroom: the
 *   nearer the host is to the reserve, the earlier the stop. An instance that starts with a root
 *   disk past its size may run to delete files.
 * - **Shortage.** Best-effort disks grew in the last minute by at least the headroom that is left:
 *   the same growth again would reach the reserve. The largest growers are stopped until the others
 *   would not. So all growth of a minute takes at most half of the headroom.
 *
 * Growth below `MIN_GROWTH_BYTES` stops nobody.
 */
import { BYTES_PER_GB } from './disk.ts';
import type { InstanceId } from '../kernel/ids.ts';

const MIB = 1024 ** 2;

export const MIN_GROWTH_BYTES = 16 * MIB;
const TOLERATED_SHARE_OF_SIZE = 0.1;
const TOLERATED_SHARE_OF_HEADROOM = 0.25;

export interface RootDisk {
  bytes: number;
  sizeGB: number;
  /** Least bytes of this run, at least its size if the run began within the size. */
  leastBytes: number;
}

/** Best-effort disks of one instance on one file system. */
export interface DiskGrowth {
  id: InstanceId;
  /** Null: a hard limit holds, or the root disk is elsewhere. */
  root: RootDisk | null;
  /** Growth of all disks within the last minute; null: not counted in time. */
  grownBytes: number | null;
}

export const diskStopCauses = ['RootDiskOverSize', 'HostNearlyFull'] as const;

export interface DiskStop {
  id: InstanceId;
  cause: (typeof diskStopCauses)[number];
}

export const toleratedBytes = (sizeGB: number, headroomBytes: number): number =>
  Math.max(0, Math.min(sizeGB * BYTES_PER_GB * TOLERATED_SHARE_OF_SIZE, headroomBytes * TOLERATED_SHARE_OF_HEADROOM));

const isOverSize = ({ bytes, sizeGB, leastBytes }: RootDisk, headroomBytes: number): boolean =>
  bytes > sizeGB * BYTES_PER_GB + toleratedBytes(sizeGB, headroomBytes) && bytes >= leastBytes + MIN_GROWTH_BYTES;

/** Returns the instances to stop, the largest grower first. */
export function disksToStop(all: readonly DiskGrowth[], headroomBytes: number): DiskStop[] {
  const isShort = headroomBytes <= 0;
  // Without headroom an instance that can't be counted, as with millions of files, counts as worst.
  const growthOf = ({ grownBytes }: DiskGrowth): number => grownBytes ?? (isShort ? Infinity : 0);
  const ordered = all.toSorted((one, other) => growthOf(other) - growthOf(one) || (one.id < other.id ? -1 : 1));
  const overSize = ordered.filter(({ root }) => root !== null && isOverSize(root, headroomBytes));
  const growing = ordered.filter((one) => !overSize.includes(one) && growthOf(one) >= MIN_GROWTH_BYTES);
  const short: DiskGrowth[] = [];
  let restBytes = growing.reduce((sum, one) => sum + growthOf(one), 0);
  for (const one of growing) {
    if (Number.isFinite(restBytes) && restBytes < Math.max(headroomBytes, MIN_GROWTH_BYTES)) break;
    short.push(one);
    restBytes = growing.slice(short.length).reduce((sum, other) => sum + growthOf(other), 0);
  }
  return [
    ...overSize.map(({ id }) => ({ id, cause: 'RootDiskOverSize' as const })),
    ...short.map(({ id }) => ({ id, cause: 'HostNearlyFull' as const })),
  ];
}
