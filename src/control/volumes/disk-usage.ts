/**
 * Measures disks: what each holds is written down beside it, and on what shows it. Those whose storage tells at once are all measured in
 * one go; where it takes a walk through all files, one after another, at a hundredth of the time at most. On the way it is seen which
 * backing of a volume is gone or back. A measurement holds neither a lease nor a slot of the loop: it waits behind nothing, and nothing
 * behind it.
 *
 * Who owns a disk that fills up is told once for each level (`domain/disk-warnings.ts`). What takes most of one that is all but full is
 * found by a walk of its own (`full-disks.ts`), which tells of that level.
 */
import { FULL_PERCENT, usedPercent, nextWarning } from '../../domain/disk-warnings.ts';
import { diskKey, inGB } from '../../domain/disk.ts';
import type { Volume } from '../../domain/volume.ts';
import type { StorageCapabilities } from '../../storage/contract.ts';
import { disksOfRegion, writeMeasuredUsage } from '../../store/tables/disks.ts';
import { bumpVersion } from '../../store/tables/events.ts';
import { makeVolumeDue, volumesAmong, writeVolumeUsage } from '../../store/tables/volumes.ts';
import { poolNamed, type LocatedDisk } from './disks.ts';
import { raced } from '../base/race-abort.ts';
import { within, type DeedDeps } from '../base/task-deps.ts';
import { publishDiskWarning, type DiskMeasurements } from './disk-measurements.ts';

const DISKS_AT_ONCE = 200;
/** Each costs the host a few calls that return at once. */
const SIDE_BY_SIDE = 16;
const AT_ONCE_DEADLINE_MS = 10_000;
const WALK_DEADLINE_MS = 600_000;
export const PAUSE_FACTOR = 100;
const LONGEST_PAUSE_MS = 3_600_000;

export interface MeasureDeps extends DeedDeps {
  measurements: DiskMeasurements;
}

type How = StorageCapabilities['usage'];

/** All disks that tell at once. */
export async function measureInstantDisks(deps: MeasureDeps): Promise<void> {
  await eachPage(deps, 'instant', async (disks, volumes) => {
    for (let from = 0; from < disks.length && !deps.ending.aborted; from += SIDE_BY_SIDE) {
      const some = disks.slice(from, from + SIDE_BY_SIDE);
      await Promise.all(some.map((disk) => measured(deps, disk, volumes.get(disk.id))));
    }
  });
}

/** The others. */
export async function measureByWalking(deps: MeasureDeps): Promise<void> {
  await eachPage(deps, 'walk', async (disks, volumes) => {
    for (const disk of disks) {
      if (deps.ending.aborted) return;
      const beganMs = deps.time.elapsed();
      await measured(deps, disk, volumes.get(disk.id));
      await pauseAfterWalk(deps, deps.time.elapsed() - beganMs);
    }
  });
}

/** So that a walk takes a hundredth of the time. */
export async function pauseAfterWalk(
  { time, ending }: DeedDeps,
  tookMs: number,
  longestMs = LONGEST_PAUSE_MS,
): Promise<void> {
  await time.sleep(Math.min(longestMs, tookMs * PAUSE_FACTOR), ending).catch(() => {});
}

type OfPage = (disks: LocatedDisk[], volumes: ReadonlyMap<string, Volume>) => Promise<void>;

async function eachPage(deps: MeasureDeps, how: How, deed: OfPage): Promise<void> {
  const { store, regions } = deps;
  for (const drivers of regions.all()) {
    for (let after = ''; !deps.ending.aborted;) {
      const page = await disksOfRegion(store.read, drivers.regionId, after, DISKS_AT_ONCE);
      const last = page.at(-1);
      if (!last) break;
      after = diskKey(last);
      const disks = page
        .map((disk) => ({ ...disk, storage: poolNamed(drivers, disk.pool).storage }))
        .filter(({ storage }) => storage.capabilities().usage === how);
      const ids = disks.filter(({ kind }) => kind === 'volume').map(({ id }) => id);
      await deed(disks, await volumesAmong(store.read, ids));
    }
  }
}

/** One that can't be measured says nothing of the others. */
async function measured(deps: MeasureDeps, disk: LocatedDisk, volume?: Volume): Promise<void> {
  try {
    await measure(deps, disk, volume);
  } catch (error) {
    if (deps.ending.aborted) return;
    deps.log.warn({ disk: diskKey(disk), err: error }, 'a disk could not be measured; it is tried again');
  }
}

async function measure(deps: MeasureDeps, found: LocatedDisk, volume?: Volume): Promise<void> {
  const { storage, ...disk } = found;
  const deadlineMs = storage.capabilities().usage === 'instant' ? AT_ONCE_DEADLINE_MS : WALK_DEADLINE_MS;
  const signal = within(deps, deadlineMs);
  const usageBytes = await raced(storage.usage(disk, signal), signal);
  if (volume && (usageBytes === null || volume.status === 'Lost')) await lookAfter(deps, found, volume);
  if (usageBytes === null) return;
  const percent = usedPercent({ ...disk, usageBytes });
  const next = nextWarning(disk.kind === 'snapshot' ? 0 : percent, disk.warnedPercent);
  // Of one that is all but full is told by who finds out what takes most of it.
  const tells = next.tell && percent < FULL_PERCENT;
  const warnedPercent = next.tell && !tells ? disk.warnedPercent : next.warnedPercent;
  const isShown = volume === undefined || inGB(volume.usageBytes) === inGB(usageBytes);
  if (inGB(usageBytes) === inGB(disk.usageBytes) && warnedPercent === disk.warnedPercent && isShown) return;
  const written = await deps.store.write(async (tx) => {
    if (!(await writeMeasuredUsage(tx, disk, { usageBytes, warnedPercent }))) return false;
    if (tells) await publishDiskWarning(tx, deps.now(), { ...found, usageBytes }, []);
    if (volume && (await writeVolumeUsage(tx, volume, usageBytes))) await bumpVersion(tx, volume.ownerId);
    return true;
  });
  if (written) await deps.measurements.usageChanged(disk, { ...disk, usageBytes });
}

/** Its backing is gone, or is back: its pass finds out what that makes of it. */
async function lookAfter(
  { store, now, wake }: MeasureDeps,
  { storage, ...disk }: LocatedDisk,
  volume: Volume,
): Promise<void> {
  if (volume.status !== 'Bound' && volume.status !== 'Lost') return;
  const seen = await storage.observe(disk);
  if (seen.kind === 'unknown' || (seen.kind === 'absent') === (volume.status === 'Lost')) return;
  await store.write((tx) => makeVolumeDue(tx, volume.id, now()));
  wake();
}
