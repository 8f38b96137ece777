/** What the timers of disks have, over a world, so that a test measures and unmounts when it likes. */
import { makeDiskSights } from '../../src/control/passes/disk-sights.ts';
import { deleteDiskStrays, sweepDisks } from '../../src/control/passes/disk-strays.ts';
import { makeLookIntoFull } from '../../src/control/passes/full-disks.ts';
import { measureAtOnce, measureByWalks } from '../../src/control/passes/measure.ts';
import { measureRootDisks } from '../../src/control/passes/root-disks.ts';
import { unmountUnneeded } from '../../src/control/passes/unmount.ts';
import { makeRegions } from '../../src/control/regions.ts';
import { realTime } from '../../src/control/time.ts';
import type { DiskId } from '../../src/domain/disk.ts';
import type { World } from './harness.ts';

export interface Measuring {
  warned: string[];
  /** All disks, and then what takes most of those that are all but full. */
  measure: () => Promise<void>;
  measureRoots: () => Promise<void>;
  unmount: (inUse?: (disk: DiskId) => boolean) => Promise<void>;
  sweep: () => Promise<void>;
}

/** Nothing is waited for: each walk may follow the one before at once. */
const unhurried = { ...realTime, sleep: async () => {} };

export function measuring(world: World, wake: () => void = () => {}): Measuring {
  const warned: string[] = [];
  const ignore = (): void => {};
  const needs = {
    store: world.store,
    regions: makeRegions([world.hands]),
    now: Date.now,
    time: unhurried,
    log: { debug: ignore, info: ignore, error: ignore, warn: (_: object, text: string) => void warned.push(text) },
    wake,
    ending: new AbortController().signal,
  };
  const sights = makeDiskSights(needs);
  const measureNeeds = { ...needs, sights };
  const lookIntoFull = makeLookIntoFull(measureNeeds);
  return {
    warned,
    async measure() {
      await measureAtOnce(measureNeeds);
      await measureByWalks(measureNeeds);
      await lookIntoFull();
      await sights.show();
    },
    measureRoots: () => measureRootDisks(measureNeeds),
    unmount: (inUse = () => false) => unmountUnneeded({ ...needs, inUse }),
    async sweep() {
      await sweepDisks(needs, world.hands);
      await deleteDiskStrays(needs, world.hands);
    },
  };
}
