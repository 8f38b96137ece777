/** When the owner of a disk is told that it fills up. Pure. */
import { BYTES_PER_GB, inGB, type Disk, type FullDisk, type DiskEntry } from './disk.ts';

/** From such a share on it is all but full, and what takes most of it is named. */
export const FULL_PERCENT = 95;
const WARN_AT_PERCENT: readonly number[] = [80, FULL_PERCENT];
/** So much below a level it must have been before its owner is told of that level again. */
const FELL_BY_PERCENT = 5;

/** Rounded down: 95 is said of what has reached it. Of a size of 0 nothing can be full. */
export const usedPercent = ({ usageBytes, sizeGB }: Pick<Disk, 'usageBytes' | 'sizeGB'>): number =>
  sizeGB === 0 ? 0 : Math.floor((usageBytes / (sizeGB * BYTES_PER_GB)) * 100);

export const isFull = (disk: Pick<Disk, 'usageBytes' | 'sizeGB'>): boolean => usedPercent(disk) >= FULL_PERCENT;

/** The level that counts as told from now on, and whether its owner is to be told of it. */
export function nextWarning(percent: number, warnedPercent: number): { warnedPercent: number; tell: boolean } {
  const reached = WARN_AT_PERCENT.findLast((level) => percent >= level) ?? 0;
  if (reached > warnedPercent) return { warnedPercent: reached, tell: true };
  const kept = WARN_AT_PERCENT.findLast((level) => level <= warnedPercent && percent > level - FELL_BY_PERCENT);
  return { warnedPercent: kept ?? 0, tell: false };
}

/** Such as `the data disk is 97 % full; most of it is in /root/dataDisk/runs (12.1 GB)`. '' when none is. */
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
