/**
 * The disk timers' dependencies over a world, so that a test measures and unmounts when it likes.
 */
import { makeDiskMeasurements } from '../../../src/control/storage/disk-measurements.ts';
import { deleteDiskOrphans, sweepDisks } from '../../../src/control/compute/orphans/disk-orphans.ts';
import {
  makeFullDiskScan,
  measureByWalking,
  measureInstantDisks,
  measureRootDisks,
} from '../../../src/control/storage/disk-usage.ts';
import { unmountUnused } from '../../../src/control/storage/mounts.ts';
import { makeRegions } from '../../../src/control/kernel/regions.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import type { World } from '../../fixtures/control.ts';

export interface Measuring {
  warned: string[];
  /** Measures all disks, then scans full ones. */
  measure: () => Promise<void>;
  measureRoots: () => Promise<void>;
  unmount: (inUse?: (disk: DiskId) => boolean) => Promise<void>;
  sweep: () => Promise<void>;
}

/** No pauses: walks follow each other at once. */
const unhurried = { ...realTime, sleep: async () => {} };

export function measuring(world: World, wake: () => void = () => {}): Measuring {
  const warned: string[] = [];
  const ignore = (): void => {};
  const deps = {
    store: world.store,
    regions: makeRegions([world.drivers]),
    time: unhurried,
    log: { debug: ignore, info: ignore, error: ignore, warn: (_: object, text: string) => void warned.push(text) },
    changes: { publish: wake },
    stopping: new AbortController().signal,
  };
  const measurements = makeDiskMeasurements(deps);
  const measureDeps = { ...deps, measurements };
  const lookIntoFull = makeFullDiskScan(measureDeps);
  return {
    warned,
    async measure() {
      await measureInstantDisks(measureDeps, world.drivers);
      await measureByWalking(measureDeps, world.drivers);
      await lookIntoFull();
      await measurements.publish();
    },
    measureRoots: () => measureRootDisks(measureDeps, world.drivers),
    unmount: (inUse = () => false) => unmountUnused({ ...deps, inUse }, world.drivers),
    async sweep() {
      await sweepDisks(deps, world.drivers);
      await deleteDiskOrphans(deps, world.drivers);
    },
  };
}
