/**
 * Stops instances whose best-effort disks grow past their size or fill the host, within seconds:
 * `domain/storage/disk-growth.ts` decides, `domain/storage/disk-growth-track.ts` names the
 * instances to count.
 */
import { disksToStop, type DiskStop } from '../../domain/storage/disk-growth.ts';
import { trackGrowth, type DiskCount, type GrowthTrack, type Writer } from '../../domain/storage/disk-growth-track.ts';
import { inGB } from '../../domain/storage/disk.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { reservedBytes, type ReserveShare } from '../../domain/storage/pool.ts';
import { activeInstanceRows, activeRowsAmong } from '../../store/tables/instance-queries.ts';
import { instanceFromRow } from '../../store/tables/instances.ts';
import { countDisks } from './disk-counts.ts';
import type { DiskMeasurements } from './disk-measurements.ts';
import { makeFileSystemReader, type FileSystem, type FileSystemDeps } from './file-systems.ts';
import { type StopAutomatically, deadlineWithin, type TaskDeps, type RegionDrivers } from '../kernel/ports.ts';

export interface DiskWatchDeps extends TaskDeps, FileSystemDeps {
  measurements: DiskMeasurements;
  stopAutomatically: StopAutomatically;
  diskReserveShare: ReserveShare;
}

const COUNT_DEADLINE_MS = 30_000;
const PAGE_SIZE = 200;

interface DiskStopOrder extends Pick<DiskStop, 'cause'> {
  instance: Instance;
  rootBytes: number;
}

export function makeDiskWatch(deps: DiskWatchDeps): () => Promise<void> {
  const { store, regions, time, log, measurements } = deps;
  const tracks = new Map<string, GrowthTrack>();
  const readFileSystems = makeFileSystemReader(deps);
  /** Stopped here: counted once more when halted, so that the next start knows the size. */
  const stopping = new Set<InstanceId>();
  /** Stops that the store could not take, tried again at each run. */
  const refused = new Map<InstanceId, DiskStopOrder>();

  async function check(drivers: RegionDrivers, key: string, system: FileSystem): Promise<void> {
    const { totalBytes, freeBytes } = system.space;
    const track = tracks.get(key) ?? trackGrowth(freeBytes, time.elapsed());
    tracks.set(key, track);
    track.noteFree(freeBytes, time.elapsed());
    if (!track.hasFallen()) return;
    const unwrittenBytes = system.pools.reduce((sum, pool) => sum + pool.unwrittenBytes, 0);
    const headroomBytes = freeBytes - unwrittenBytes - reservedBytes(totalBytes, deps.diskReserveShare);
    const isLimited = drivers.health.probe?.capabilities.rootDiskLimit === 'hard';
    const running = await runningInstances(drivers.regionId);
    const writers = new Map(running.map((one) => [one.id, writerOf(one, system.holdsRoots && !isLimited)]));
    const due = new Set(track.due([...writers.values()], headroomBytes).map(({ id }) => id));
    if (due.size === 0) return;
    const instances = running.filter(({ id }) => due.has(id));
    const signal = deadlineWithin(deps, COUNT_DEADLINE_MS);
    const counts = await countDisks(store.read, drivers, { ...system, instances }, signal);
    for (const [id, count] of counts) note(track, writers.get(id), count, system.holdsRoots);
    const stops = disksToStop([...writers.values()].map(track.growthOf), headroomBytes);
    for (const { id, cause } of stops) {
      const instance = running.find((one) => one.id === id);
      if (instance) await stop({ instance, cause, rootBytes: counts.get(id)?.rootBytes ?? 0 });
    }
    await measurements.publish();
  }

  function note(track: GrowthTrack, writer: Writer | undefined, count: DiskCount, holdsRoots: boolean): void {
    if (!writer) return;
    track.noteCount(writer, count);
    if (holdsRoots && count.rootBytes !== null)
      measurements.setRoot(writer.id, { bytes: count.rootBytes, biggest: null });
  }

  async function runningInstances(regionId: string): Promise<Instance[]> {
    const found: Instance[] = [];
    for (let afterId = ''; ;) {
      const rows = await activeInstanceRows(store.read, { afterId, limit: PAGE_SIZE, onlyRunning: true });
      afterId = rows.at(-1)?.id ?? '';
      if (afterId === '') return found;
      found.push(...rows.filter((row) => row.regionId === regionId && row.everEnsured === 1).map(instanceFromRow));
    }
  }

  async function stop(order: DiskStopOrder): Promise<void> {
    const { cause, rootBytes } = order;
    const { id, ownerId, generation, spec } = order.instance;
    const usage = { rootDiskGB: inGB(rootBytes), rootDiskSizeGB: spec.type.rootDiskGB };
    try {
      // Another generation has been started since the count, or stopped.
      const isStopped = await deps.stopAutomatically({ id, ownerId }, (instance) =>
        instance.generation === generation ? { cause, why: usage } : null,
      );
      refused.delete(id);
      if (!isStopped) return;
      stopping.add(id);
      log.warn({ id, cause, ...usage }, 'an instance was stopped because its disks fill the host');
    } catch (error) {
      if (deps.stopping.aborted || refused.has(id)) return;
      // A full host takes no write of the database: end the growth first.
      refused.set(id, order);
      log.error(
        { id, cause, err: error },
        'could not write the stop of an instance that fills the host; Berth retries',
      );
      await regions.of(spec.regionId).engine.halt(id, 0, deadlineWithin(deps, COUNT_DEADLINE_MS));
    }
  }

  async function countStopped(): Promise<void> {
    if (stopping.size === 0) return;
    const rows = await activeRowsAmong(store.read, [...stopping]);
    for (const id of stopping) {
      const row = rows.find((one) => one.id === id);
      if (row?.desired === 'stopped' && row.status !== 'Stopped') continue;
      const drivers = row && regions.of(row.regionId);
      if (drivers?.health.answers === false) continue;
      stopping.delete(id);
      if (!drivers) continue;
      const signal = deadlineWithin(deps, COUNT_DEADLINE_MS);
      const usage = (await drivers.engine.usage([id], signal, { rootDisk: true, countersOnly: true })).get(id);
      const bytes = usage?.rootDiskBytes ?? null;
      if (bytes !== null) measurements.setRoot(id, { bytes, biggest: null });
    }
    await measurements.publish();
  }

  return async () => {
    for (const order of refused.values()) await stop(order);
    for (const drivers of regions.all()) {
      if (!drivers.health.answers) continue;
      for (const [key, system] of await readFileSystems(drivers))
        if (isCountable(system)) await check(drivers, key, system);
    }
    await countStopped();
  };
}

/** Plain folders are counted by walks only. */
const isCountable = ({ holdsRoots, pools }: FileSystem): boolean =>
  holdsRoots || pools.some(({ storage }) => storage.capabilities().sizeLimit === 'hard');

const writerOf = ({ id, generation, spec, diskUsage }: Instance, hasSoftRoot: boolean): Writer => ({
  id,
  generation,
  rootSizeGB: hasSoftRoot ? spec.type.rootDiskGB : null,
  knownRootBytes: diskUsage.rootBytes,
});
