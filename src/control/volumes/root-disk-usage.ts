/** Measures root disks, at most 1 % of the time: the engine counts each file by file. */
import { settledRunningIds, runningRowsAmong } from '../../store/tables/instance-queries.ts';
import { isFull, largestEntries } from '../../domain/disk-usage.ts';
import type { DiskEntry } from '../../domain/disk.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import type { RegionDrivers } from '../base/regions.ts';
import { deadlineWithin } from '../base/deps.ts';
import { pauseAfterWalk, type MeasureDeps } from './disk-usage.ts';

const COUNT_DEADLINE_MS = 70_000;
/** Bounds the delay that one slow instance causes to the others. */
const LONGEST_PAUSE_MS = 60_000;
/** An instance's first usage takes 1 s, in which the engine waits for a CPU counter. */
const CPU_SAMPLE_MS = 1_000;
const WALK_S = 60;
const DU_BLOCK = 1024;

export async function measureRootDisks(deps: MeasureDeps): Promise<void> {
  for (const drivers of deps.regions.all()) {
    if (!drivers.health.answers) continue;
    for (const id of await settledRunningIds(deps.store.read, drivers.regionId)) {
      if (deps.stopping.aborted) return;
      const beganMs = deps.time.elapsed();
      await tryMeasure(deps, drivers, instanceId(id));
      const tookMs = Math.max(0, deps.time.elapsed() - beganMs - CPU_SAMPLE_MS);
      await pauseAfterWalk(deps, tookMs, LONGEST_PAUSE_MS);
    }
  }
}

async function tryMeasure(deps: MeasureDeps, drivers: RegionDrivers, id: InstanceId): Promise<void> {
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
    deps.log.info({ id, err: error }, 'could not measure a root disk; will retry');
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
