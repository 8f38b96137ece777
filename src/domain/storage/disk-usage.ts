import {
  inGB,
  type Disk,
  type DiskId,
  type DiskUsage,
  type FullDisk,
  type DiskEntry,
  type SizeLimit,
  BYTES_PER_GB,
} from './disk.ts';
import { ownDisks, ownMountPaths } from '../compute/instance-disks.ts';
import type { Instance } from '../compute/instance.ts';

export const FULL_PERCENT = 95;
const WARN_AT_PERCENT: readonly number[] = [80, FULL_PERCENT];
/** Hysteresis: usage must fall this far below a level before the level is warned of again. */
const HYSTERESIS_PERCENT = 5;

/** Rounded down, so 95 means reached. 0 for a disk of size 0. */
export const usedPercent = ({ usageBytes, sizeGB }: Pick<Disk, 'usageBytes' | 'sizeGB'>): number =>
  sizeGB === 0 ? 0 : Math.floor((usageBytes / (sizeGB * BYTES_PER_GB)) * 100);

export const isFull = (disk: Pick<Disk, 'usageBytes' | 'sizeGB'>): boolean => usedPercent(disk) >= FULL_PERCENT;

/** Returns the level warned of from now on, and whether to notify the owner. */
export function nextWarning(percent: number, warnedPercent: number): { warnedPercent: number; notify: boolean } {
  const reached = WARN_AT_PERCENT.findLast((level) => percent >= level) ?? 0;
  if (reached > warnedPercent) return { warnedPercent: reached, notify: true };
  const level = WARN_AT_PERCENT.findLast((level) => level <= warnedPercent && percent > level - HYSTERESIS_PERCENT);
  return { warnedPercent: level ?? 0, notify: false };
}

/** Example: `the data disk is 97 % full; its largest paths are /root/dataDisk/runs (12.1 GB)`. */
export const fullDisksText = (full: readonly FullDisk[]): string =>
  full
    .map(({ disk, mountPath, percent, biggest }) => {
      const named = biggest.map((part) => `${pathIn(mountPath, part)} (${inGB(part.bytes)} GB)`).join(', ');
      const where = named === '' ? '' : `; its largest paths are ${named}`;
      const what = disk === 'volume' ? `volume on ${mountPath}` : `${disk} disk`;
      return `the ${what} is ${percent} % full${where}`;
    })
    .join('. ');

const pathIn = (mountPath: string, { path }: DiskEntry): string => `${mountPath.replace(/\/+$/, '')}/${path}`;

type MeasuredDisk = Pick<Disk, 'kind' | 'id' | 'sizeGB' | 'usageBytes'>;

export interface RootDiskUsage {
  bytes: number;
  biggest: DiskEntry[] | null;
}

export const diskIdsOf = (instance: Pick<Instance, 'id' | 'ownerId' | 'spec'>): DiskId[] => [
  ...ownDisks(instance, 0).map(({ kind, id }) => ({ kind, id })),
  ...instance.spec.mounts.map(({ volumeId }): DiskId => ({ kind: 'volume', id: volumeId })),
];

interface Measurements {
  root?: RootDiskUsage | undefined;
  /** Largest entries of a disk; undefined while unknown. */
  biggest: (disk: DiskId) => DiskEntry[] | undefined;
}

/** `disks`: the existing ones of `diskIdsOf`. Unmeasured values stay unchanged. */
export function updateDiskUsage(
  instance: Instance,
  disks: readonly MeasuredDisk[],
  { root, biggest }: Measurements,
): DiskUsage {
  const { diskUsage: previous } = instance;
  const bytesOf = (kind: Disk['kind']): number => disks.find((disk) => disk.kind === kind)?.usageBytes ?? 0;
  const rootBytes =
    root !== undefined && inGB(root.bytes) !== inGB(previous.rootBytes) ? root.bytes : previous.rootBytes;
  const rootPercent = usedPercent(rootDisk(instance, rootBytes));
  const previousLargest = (disk: FullDisk['disk'], mountPath: string): DiskEntry[] =>
    previous.full.find((one) => one.disk === disk && one.mountPath === mountPath)?.biggest ?? [];
  const full = disks.filter(isFull).map((disk) => {
    const { kind } = disk;
    const mountPath = mountPathOf(instance, disk);
    return {
      disk: kind,
      mountPath,
      percent: usedPercent(disk),
      biggest: biggest(disk) ?? previousLargest(kind, mountPath),
    };
  });
  const rootIsFull = isFull(rootDisk(instance, rootBytes));
  const fullRoot = { disk: 'root' as const, mountPath: '/', percent: rootPercent };
  return {
    rootBytes,
    dataBytes: bytesOf('data'),
    dockerBytes: bytesOf('docker'),
    rootWarnedPercent: nextWarning(rootPercent, previous.rootWarnedPercent).warnedPercent,
    full: rootIsFull ? [{ ...fullRoot, biggest: root?.biggest ?? previousLargest('root', '/') }, ...full] : full,
  };
}

const rootDisk = ({ spec }: Pick<Instance, 'spec'>, usageBytes: number) => ({
  usageBytes,
  sizeGB: spec.type.rootDiskGB,
});

function mountPathOf({ spec }: Pick<Instance, 'spec'>, { kind, id }: DiskId): string {
  if (kind === 'data' || kind === 'shared' || kind === 'docker') return ownMountPaths[kind];
  return spec.mounts.find(({ volumeId }) => volumeId === id)?.mountPath ?? '';
}

export interface PublicDisk {
  disk: FullDisk['disk'];
  /** Volume id or disk id; '' for the root disk. */
  id: string;
  mountPath: string;
  sizeGB: number;
  /** Whether writers fail at the size, or usage is only measured. */
  sizeLimit: SizeLimit;
  usageGB: number;
  percent: number;
  biggest: { path: string; usageGB: number }[];
}

export function publicDisks(
  instance: Instance,
  disks: readonly (MeasuredDisk & Pick<PublicDisk, 'sizeLimit'>)[],
  rootLimit: PublicDisk['sizeLimit'],
): PublicDisk[] {
  const { diskUsage } = instance;
  const present = (
    disk: PublicDisk['disk'],
    id: string,
    mountPath: string,
    one: Omit<MeasuredDisk, 'kind' | 'id'>,
  ) => ({
    disk,
    id,
    mountPath,
    sizeGB: one.sizeGB,
    usageGB: inGB(one.usageBytes),
    percent: usedPercent(one),
    biggest: publicEntries(diskUsage.full.find((full) => full.disk === disk && full.mountPath === mountPath)),
  });
  const root = { ...present('root', '', '/', rootDisk(instance, diskUsage.rootBytes)), sizeLimit: rootLimit };
  const others = disks.map((disk) => ({
    ...present(disk.kind, disk.id, mountPathOf(instance, disk), disk),
    sizeLimit: disk.sizeLimit,
  }));
  return [root, ...others];
}

const publicEntries = (full: FullDisk | undefined): PublicDisk['biggest'] =>
  (full?.biggest ?? []).map(({ path, bytes }) => ({ path, usageGB: inGB(bytes) }));

const MAX_ENTRIES = 5;
const MAX_CANDIDATES = 200;
/** A folder whose share lies almost whole in one entry adds no information. */
const DOMINANT_SHARE = 0.9;
const MAX_NAME_LENGTH = 200;

export const takeLargest = (entries: readonly DiskEntry[], count: number): DiskEntry[] =>
  entries.toSorted((one, other) => other.bytes - one.bytes || (one.path < other.path ? -1 : 1)).slice(0, count);

/** Returns at most five entries, folders and files of several levels. Paths are safe to print. */
export function largestEntries(entries: readonly DiskEntry[]): DiskEntry[] {
  const isMostOf = (inner: DiskEntry, outer: DiskEntry): boolean =>
    inner.path.startsWith(`${outer.path}/`) && inner.bytes >= outer.bytes * DOMINANT_SHARE;
  // Bounds the quadratic comparison below.
  const candidates = takeLargest(entries, MAX_CANDIDATES);
  const informative = candidates.filter(
    (outer) => outer.bytes > 0 && !candidates.some((inner) => isMostOf(inner, outer)),
  );
  return takeLargest(informative, MAX_ENTRIES).map(({ path, bytes }) => ({ path: printable(path), bytes }));
}

/** Instances choose the names: no control character or line break may reach a terminal. */
function printable(path: string): string {
  const letters = [...path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')];
  return letters.length > MAX_NAME_LENGTH ? `${letters.slice(0, MAX_NAME_LENGTH).join('')}…` : letters.join('');
}
