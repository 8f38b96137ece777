/**
 * Measures the usage of disks, walks at most 1 % of the time, without leases or slots of the loop.
 * Also finds volumes whose backing is lost or back, and the largest folders of nearly full disks,
 * and warns owners (`domain/storage/disk-usage.ts`).
 */
import { FULL_PERCENT, usedPercent, nextWarning, isFull, largestEntries } from '../../domain/storage/disk-usage.ts';
import { diskKey, inGB, type DiskEntry } from '../../domain/storage/disk.ts';
import type { Volume } from '../../domain/storage/volume.ts';
import type { StorageCapabilities } from '../../storage/contract.ts';
import { disksFilledTo, disksOfRegion, writeMeasuredUsage } from '../../store/tables/disks.ts';
import { bumpVersion } from '../../store/tables/events.ts';
import { makeVolumeDue, volumesAmong, writeVolumeUsage } from '../../store/tables/volumes.ts';
import { poolNamed, type LocatedDisk } from './disks.ts';
import { raceAbort } from '../../async/abort.ts';
import { publishDiskWarning, type DiskMeasurements } from './disk-measurements.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { instanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import { runningRowsAmong, settledRunningIds } from '../../store/tables/instance-queries.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import { deadlineWithin, type TaskDeps, type RegionDrivers } from '../kernel/ports.ts';

const PAGE_SIZE = 200;
const CONCURRENCY = 16;
const INSTANT_DEADLINE_MS = 10_000;
const WALK_DEADLINE_MS = 600_000;
const SCAN_DEADLINE_MS = 60_000;
/** Pause after a walk, in multiples of its duration. */
const PAUSE_FACTOR = 100;
const LONGEST_PAUSE_MS = 3_600_000;

export interface MeasureDeps extends TaskDeps {
  measurements: DiskMeasurements;
}

type UsageMode = 'instant' | 'walk';

const modeOf = ({ usage }: StorageCapabilities): UsageMode => (usage === 'walk' ? 'walk' : 'instant');

export async function measureInstantDisks(deps: MeasureDeps, drivers: RegionDrivers): Promise<void> {
  await eachPage(deps, drivers, 'instant', async (disks, volumes) => {
    for (let from = 0; from < disks.length && !deps.stopping.aborted; from += CONCURRENCY) {
      const batch = disks.slice(from, from + CONCURRENCY);
      await Promise.all(batch.map((disk) => tryMeasure(deps, disk, volumes.get(disk.id))));
    }
  });
}

export async function measureByWalking(deps: MeasureDeps, drivers: RegionDrivers): Promise<void> {
  await eachPage(deps, drivers, 'walk', async (disks, volumes) => {
    for (const disk of disks) {
      if (deps.stopping.aborted) return;
      const beganMs = deps.time.elapsed();
      await tryMeasure(deps, disk, volumes.get(disk.id));
      await pauseAfterWalk(deps, deps.time.elapsed() - beganMs);
    }
  });
}

async function pauseAfterWalk(
  { time, stopping }: TaskDeps,
  tookMs: number,
  longestMs = LONGEST_PAUSE_MS,
): Promise<void> {
  await time.sleep(Math.min(longestMs, tookMs * PAUSE_FACTOR), stopping).catch(() => {});
}

type PageCallback = (disks: LocatedDisk[], volumes: ReadonlyMap<string, Volume>) => Promise<void>;

async function eachPage(
  { store, stopping }: MeasureDeps,
  drivers: RegionDrivers,
  mode: UsageMode,
  callback: PageCallback,
): Promise<void> {
  for (let after = ''; !stopping.aborted;) {
    const page = await disksOfRegion(store.read, drivers.regionId, after, PAGE_SIZE);
    const last = page.at(-1);
    if (!last) return;
    after = diskKey(last);
    const disks = page
      .map((disk) => ({ ...disk, storage: poolNamed(drivers, disk.pool).storage }))
      .filter(({ storage }) => modeOf(storage.capabilities()) === mode);
    const ids = disks.filter(({ kind }) => kind === 'volume').map(({ id }) => id);
    await callback(disks, await volumesAmong(store.read, ids));
  }
}

/** Logs a failure: the other disks are measured all the same. */
async function tryMeasure(deps: MeasureDeps, disk: LocatedDisk, volume?: Volume): Promise<void> {
  try {
    await measure(deps, disk, volume);
  } catch (error) {
    if (deps.stopping.aborted) return;
    deps.log.warn({ disk: diskKey(disk), err: error }, 'could not measure a disk; Berth retries');
  }
}

async function measure(deps: MeasureDeps, located: LocatedDisk, volume?: Volume): Promise<void> {
  const { storage, ...disk } = located;
  const deadlineMs = modeOf(storage.capabilities()) === 'walk' ? WALK_DEADLINE_MS : INSTANT_DEADLINE_MS;
  const signal = deadlineWithin(deps, deadlineMs);
  const usageBytes = await raceAbort(storage.usage(disk, signal), signal);
  if (volume && (usageBytes === null || volume.status === 'Lost')) await checkBacking(deps, located, volume);
  if (usageBytes === null) return;
  const percent = usedPercent({ ...disk, usageBytes });
  const warning = nextWarning(disk.kind === 'snapshot' ? 0 : percent, disk.warnedPercent);
  // The highest level is published by the full-disk scan, with the largest folders.
  const warnsHere = warning.notify && percent < FULL_PERCENT;
  const warnedPercent = warning.notify && !warnsHere ? disk.warnedPercent : warning.warnedPercent;
  const isPublished = volume === undefined || inGB(volume.usageBytes) === inGB(usageBytes);
  if (inGB(usageBytes) === inGB(disk.usageBytes) && warnedPercent === disk.warnedPercent && isPublished) return;
  const written = await deps.store.write(async (tx) => {
    if (!(await writeMeasuredUsage(tx, disk, { usageBytes, warnedPercent }))) return false;
    if (warnsHere) await publishDiskWarning(tx, deps.time.now(), { ...located, usageBytes }, []);
    if (volume && (await writeVolumeUsage(tx, volume, usageBytes))) await bumpVersion(tx, volume.ownerId);
    return true;
  });
  if (written) await deps.measurements.usageChanged(disk, { ...disk, usageBytes });
}

async function checkBacking(
  { store, time, changes }: MeasureDeps,
  { storage, ...disk }: LocatedDisk,
  volume: Volume,
): Promise<void> {
  if (volume.status !== 'Bound' && volume.status !== 'Lost') return;
  const observation = await storage.observe(disk);
  if (observation.kind === 'unknown' || (observation.kind === 'absent') === (volume.status === 'Lost')) return;
  await store.write((tx) => makeVolumeDue(tx, volume.id, time.now()));
  changes.publish({ subject: 'volume', isDue: true });
}

/** Finds the largest folders of nearly full disks, by walks for at most 1 % of the time. */
export function makeFullDiskScan(deps: MeasureDeps): () => Promise<void> {
  const { store, regions, time, log, stopping } = deps;
  const notBeforeMs = new Map<string, number>();

  /** Returns null if the disk is not mounted or the walk takes too long. */
  async function biggestOf({ storage, ...disk }: LocatedDisk): Promise<DiskEntry[] | null> {
    const signal = deadlineWithin(deps, SCAN_DEADLINE_MS);
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
        await publishDiskWarning(tx, deps.time.now(), disk, biggest ?? []);
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

const COUNT_DEADLINE_MS = 70_000;
/** Bounds the delay that one slow instance causes to the others. */
const LONGEST_ROOT_PAUSE_MS = 60_000;
/** An instance's first usage takes 1 s, in which the engine waits for a CPU counter. */
const CPU_SAMPLE_MS = 1_000;
const WALK_S = 60;
const DU_BLOCK = 1024;

/** Measures root disks, at most 1 % of the time: the engine counts each file by file. */
export async function measureRootDisks(deps: MeasureDeps, drivers: RegionDrivers): Promise<void> {
  const { answers, probe } = drivers.health;
  if (!answers || probe?.capabilities.keepsRootDisk === false) return;
  for (const id of await settledRunningIds(deps.store.read, drivers.regionId)) {
    if (deps.stopping.aborted) return;
    const beganMs = deps.time.elapsed();
    await tryMeasureRoot(deps, drivers, instanceId(id));
    const tookMs = Math.max(0, deps.time.elapsed() - beganMs - CPU_SAMPLE_MS);
    await pauseAfterWalk(deps, tookMs, LONGEST_ROOT_PAUSE_MS);
  }
}

async function tryMeasureRoot(deps: MeasureDeps, drivers: RegionDrivers, id: InstanceId): Promise<void> {
  const signal = deadlineWithin(deps, COUNT_DEADLINE_MS);
  try {
    const [row] = await runningRowsAmong(deps.store.read, [id]);
    const usage = row && (await drivers.engine.usage([id], signal, { rootDisk: true })).get(id);
    if (!usage || usage.rootDiskBytes === null) return;
    const { spec } = instanceFromRow(row);
    const bytes = usage.rootDiskBytes;
    const full = isFull({ usageBytes: bytes, sizeGB: spec.type.rootDiskGB });
    deps.measurements.setRoot(id, { bytes, biggest: full ? await largestInside(drivers, id, signal) : null });
    await deps.measurements.publish();
  } catch (error) {
    if (deps.stopping.aborted) return;
    if (!(error instanceof EngineFault) && !signal.aborted) throw error;
    deps.log.info({ id, err: error }, 'could not measure a root disk; Berth retries');
  }
}

/** Two levels of folders, those of the image included; null if the container has no `du`. */
async function largestInside(
  { engine }: RegionDrivers,
  id: InstanceId,
  signal: AbortSignal,
): Promise<DiskEntry[] | null> {
  const walk = ['timeout', String(WALK_S), 'du', '-xk', '-d', '2', '/'];
  const { stdout } = await engine.exec(id, walk, signal);
  const parts = stdout.split('\n').flatMap((line) => {
    const [, blocks, path] = /^(\d+)\s+\/(.+)$/.exec(line) ?? [];
    return path === undefined ? [] : [{ path, bytes: Number(blocks) * DU_BLOCK }];
  });
  return parts.length === 0 ? null : largestEntries(parts);
}
