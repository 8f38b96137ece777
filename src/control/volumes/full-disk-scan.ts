/** Finds the largest folders of nearly full disks, by walks for at most 1 % of the time. */
import { FULL_PERCENT, usedPercent, nextWarning } from '../../domain/disk-usage.ts';
import { diskKey, type DiskEntry } from '../../domain/disk.ts';
import { disksFilledTo, writeMeasuredUsage } from '../../store/tables/disks.ts';
import { poolNamed, type LocatedDisk } from './disks.ts';
import { raceAbort } from '../../async/abort.ts';
import { deadlineWithin } from '../base/deps.ts';
import { publishDiskWarning } from './disk-measurements.ts';
import { PAUSE_FACTOR, type MeasureDeps } from './disk-usage.ts';

const WALK_DEADLINE_MS = 60_000;

export type ScanFullDisks = () => Promise<void>;

export function makeFullDiskScan(deps: MeasureDeps): ScanFullDisks {
  const { store, regions, time, log, stopping } = deps;
  const notBeforeMs = new Map<string, number>();

  /** Returns null if the disk is not mounted or the walk takes too long. */
  async function biggestOf({ storage, ...disk }: LocatedDisk): Promise<DiskEntry[] | null> {
    const signal = deadlineWithin(deps, WALK_DEADLINE_MS);
    try {
      return await raceAbort(storage.largestEntries(disk, signal), signal);
    } catch (error) {
      if (!stopping.aborted) log.warn({ disk: diskKey(disk), err: error }, 'could not scan a full disk');
      return null;
    }
  }

  async function scan(disk: LocatedDisk): Promise<void> {
    const beganMs = time.elapsed();
    const biggest = await biggestOf(disk);
    const endedMs = time.elapsed();
    notBeforeMs.set(diskKey(disk), endedMs + (endedMs - beganMs) * PAUSE_FACTOR);
    if (stopping.aborted) return;
    if (biggest) await deps.measurements.setLargest(disk, biggest);
    const { usageBytes } = disk;
    const { notify: isDue, warnedPercent } = nextWarning(usedPercent(disk), disk.warnedPercent);
    if (!isDue) return;
    await store.write(async (tx) => {
      if (await writeMeasuredUsage(tx, disk, { usageBytes, warnedPercent }))
        await publishDiskWarning(tx, deps.now(), disk, biggest ?? []);
    });
  }

  return async () => {
    const full = new Set<string>();
    for (const drivers of regions.all()) {
      for (const disk of await disksFilledTo(store.read, drivers.regionId, FULL_PERCENT)) {
        if (stopping.aborted) return;
        full.add(diskKey(disk));
        if (disk.kind === 'snapshot' || (notBeforeMs.get(diskKey(disk)) ?? 0) > time.elapsed()) continue;
        await scan({ ...disk, storage: poolNamed(drivers, disk.pool).storage });
      }
    }
    for (const key of notBeforeMs.keys()) if (!full.has(key)) notBeforeMs.delete(key);
    deps.measurements.retainFull(full);
  };
}
