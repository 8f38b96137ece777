/** Volumes, snapshots and the disks of instances. */
import type { ReserveShare, Space } from '../../domain/storage/pool.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { ownedVolume } from '../../store/tables/volumes.ts';
import { makeVolumePages } from '../../store/tables/volume-pages.ts';
import {
  makeEachRegion,
  makeRegionTask,
  overlappingTask,
  task,
  type Kernel,
  type RegionDrivers,
  type StopAutomatically,
  type Task,
} from '../kernel/ports.ts';
import type { MeteredDeps } from '../money/ports.ts';
import { makeAllocator } from './allocate.ts';
import { makeDiskHolders } from './disk-holders.ts';
import { makeDiskMeasurements } from './disk-measurements.ts';
import { makeFullDiskScan, measureByWalking, measureInstantDisks, measureRootDisks } from './disk-usage.ts';
import { makeDiskWatch } from './disk-watch.ts';
import { locateVolume } from './disks.ts';
import { makeFiles, type Files } from './files.ts';
import { makeFreeSpaceMonitor } from './free-space.ts';
import { makeHeldDisks, type HeldDisks } from './held-disks.ts';
import { makeOpenFiles, unmountUnused } from './mounts.ts';
import { makeSnapshotReconciler } from './reconcile-snapshot.ts';
import { makeVolumeReconciler } from './reconcile-volume.ts';
import { makeSnapshots, type Snapshots } from './snapshots.ts';
import { makeVolumes, type Volumes } from './volumes.ts';

export interface StorageOptions {
  dataSpace: () => Promise<Space>;
  diskReserveShare?: ReserveShare;
}

const FREE_SPACE_INTERVAL_MS = 10_000;
/** Disk usage is shown within half a minute. */
const MEASURE_INTERVAL_MS = 20_000;
/** A root disk past its size is found within seconds. */
const DISK_WATCH_INTERVAL_MS = 1_000;
const ALLOCATE_INTERVAL_MS = 60_000;
const UNMOUNT_INTERVAL_MS = 30_000;
const UNMOUNT_AT_STOP_MS = 10_000;
const FULL_DISK_SCAN = 'scan full disks';

export interface StorageUseCases {
  volumes: Volumes;
  snapshots: Snapshots;
  files: Files;
  heldDisks: Pick<HeldDisks, 'list'>;
}

export function wireStorage(options: Kernel & Pick<MeteredDeps, 'metering'> & StorageOptions) {
  const { store, regions, time, log, scheduler, diskReserveShare = null } = options;
  const allocator = makeAllocator(options);
  const parts = {
    allocator,
    diskReserveShare,
    freeSpace: makeFreeSpaceMonitor({ ...options, diskReserveShare, allocator }),
    volumePages: makeVolumePages(),
    diskHolders: makeDiskHolders(),
    heldDisks: makeHeldDisks(options),
  };
  const deps = { ...options, ...parts };
  const { diskHolders, freeSpace, heldDisks } = parts;
  const useCases: StorageUseCases = {
    volumes: makeVolumes(deps),
    snapshots: makeSnapshots(deps),
    files: makeFiles({
      findVolume: (accountId, id) => ownedVolume(store.read, accountId, id),
      openFiles: makeOpenFiles({ locate: (volume) => locateVolume(store.read, regions, volume), time }),
      uses: diskHolders,
    }),
    heldDisks,
  };
  const measurements = makeDiskMeasurements(deps);
  const measureDeps = { ...deps, measurements };
  const measure = async (drivers: RegionDrivers): Promise<void> => {
    await measureInstantDisks(measureDeps, drivers);
    await measurements.publish();
    scheduler.runSoon(FULL_DISK_SCAN);
  };
  const inEach = makeRegionTask(regions);
  const unmountDeps = { ...deps, inUse: diskHolders.inUse };
  const tasks = (needs: { stopAutomatically: StopAutomatically }): Task[] => [
    overlappingTask('free space', FREE_SPACE_INTERVAL_MS, () => freeSpace.measure()),
    task(FULL_DISK_SCAN, MEASURE_INTERVAL_MS, makeFullDiskScan(measureDeps)),
    inEach('measure disks', MEASURE_INTERVAL_MS, measure),
    inEach('walk disks', MEASURE_INTERVAL_MS, (drivers) => measureByWalking(measureDeps, drivers)),
    inEach('measure root disks', MEASURE_INTERVAL_MS, (drivers) => measureRootDisks(measureDeps, drivers)),
    task('watch disks', DISK_WATCH_INTERVAL_MS, makeDiskWatch({ ...measureDeps, ...needs })),
    task('allocate volumes', ALLOCATE_INTERVAL_MS, () => allocator.run()),
    inEach('unmount disks', UNMOUNT_INTERVAL_MS, (drivers) => unmountUnused(unmountDeps, drivers)),
  ];
  return {
    parts,
    useCases,
    tasks,
    reconcilers: { volume: makeVolumeReconciler(deps), snapshot: makeSnapshotReconciler(deps) },
    /** Ends reads and writes of files. */
    endUses: () => diskHolders.stop(new Refusal('unavailable', 'the server is stopping', { retryAfterS: 1 })),
    /** Running instances keep their mounts. */
    async unmountAll(): Promise<void> {
      const stopping = time.deadline(UNMOUNT_AT_STOP_MS);
      const unmount = makeEachRegion(regions, (drivers) =>
        unmountUnused({ ...deps, stopping, inUse: () => false }, drivers),
      );
      await unmount().catch((error: unknown) => log.warn({ err: error }, 'could not unmount all unused disks'));
    },
  };
}

export type StorageParts = ReturnType<typeof wireStorage>['parts'];
