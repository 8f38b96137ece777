import { BYTES_PER_GB, inGB, type Disk, type FullDisk, type DiskEntry } from './disk.ts';

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

/** Example: `the data disk is 97 % full; most of it is in /root/dataDisk/runs (12.1 GB)`. */
export const fullDisksText = (full: readonly FullDisk[]): string =>
  full
    .map(({ disk, mountPath, percent, biggest }) => {
      const named = biggest.map((part) => `${pathIn(mountPath, part)} (${inGB(part.bytes)} GB)`).join(', ');
      const where = named === '' ? '' : `; most of it is in ${named}`;
      const what = disk === 'volume' ? `volume on ${mountPath}` : `${disk} disk`;
      return `the ${what} is ${percent} % full${where}`;
    })
    .join('. ');

const pathIn = (mountPath: string, { path }: DiskEntry): string => `${mountPath.replace(/\/+$/, '')}/${path}`;
