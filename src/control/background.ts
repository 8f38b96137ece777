/**
 * Control in the background: the reconcile loops, the engines' hints, and one table of periodic
 * tasks.
 */
import { Refusal } from '../domain/refusal.ts';
import { releaseAllLeases } from '../store/db/leases.ts';
import { makeSemaphore, type Semaphore } from '../async/semaphore.ts';
import { startReconcileLoop, type ReconcileLoop } from './base/reconcile-loop.ts';
import { makeStopDue } from './auto-stop/stop-due.ts';
import { makeImageReconciler } from './images/reconcile-image.ts';
import { makeInstanceReconciler } from './instances/reconcile-instance.ts';
import { makeDiskMeasurements } from './volumes/disk-measurements.ts';
import { deleteDiskOrphans, sweepDisks } from './orphans/disk-orphans.ts';
import { makeFullDiskScan } from './volumes/full-disk-scan.ts';
import { measureInstantDisks, measureByWalking } from './volumes/disk-usage.ts';
import { probeEngines } from './capacity/probe.ts';
import { handleOrphans } from './orphans/handle-orphans.ts';
import { measureRootDisks } from './volumes/root-disk-usage.ts';
import { sweepRegion, watchEngines } from './orphans/sweep.ts';
import { deleteExpired } from './base/delete-expired.ts';
import { makeSnapshotReconciler } from './volumes/reconcile-snapshot.ts';
import { unmountUnused } from './volumes/mounts.ts';
import { makeVolumeReconciler } from './volumes/reconcile-volume.ts';
import type { RegionDrivers } from './base/regions.ts';
import type { Task } from './base/scheduler.ts';
import type { Foundation } from './foundation.ts';

export interface Background {
  start(): Promise<void>;
  stop(): Promise<void>;
}

const PIDS_LIMIT = 4096;
const RELEASED_LISTED_MS = 3_600_000;
const FREE_SPACE_INTERVAL_MS = 10_000;
const PROBE_INTERVAL_MS = 10_000;
/** An orphan must be seen twice, and is to be found within a minute. */
const SWEEP_INTERVAL_MS = 25_000;
/** Disk usage is shown within half a minute. */
const MEASURE_INTERVAL_MS = 20_000;
const UNMOUNT_INTERVAL_MS = 30_000;
const HEALTH_INTERVAL_MS = 5_000;
const EXPIRE_INTERVAL_MS = 60_000;
const STOP_DUE_INTERVAL_MS = 1_000;
const IDLE_INTERVAL_MS = 1_000;
const SAMPLE_INTERVAL_MS = 1_000;
const ACCESS_INTERVAL_MS = 3_600_000;

/** Tasks that an operator's request runs at once. */
export const SWEEP_TASKS = ['sweep', 'sweep disks'] as const;
const FULL_DISK_SCAN = 'scan full disks';

export function makeBackground(foundation: Foundation): Background {
  const { deps, store, time, log, taskDeps, changes, scheduler, stopping, idleDetector } = foundation;
  let loops: ReconcileLoop[] = [];
  let firstProbe: Promise<void> = Promise.resolve();
  return {
    async start() {
      if (deps.alone) await store.write((tx) => releaseAllLeases(tx, time.now()));
      loops = startLoops(foundation);
      watchEngines(taskDeps);
      scheduler.start(makeTasks(foundation));
      firstProbe = probeEngines(taskDeps).catch((error: unknown) => log.warn({ err: error }, 'the first probe failed'));
    },
    async stop() {
      stopping.abort();
      const idle = scheduler.stop();
      await foundation.diskUses.stop(new Refusal('unavailable', 'the server is being stopped', { retryAfterS: 1 }));
      await Promise.all(loops.map((loop) => loop.stop()));
      await Promise.allSettled([idle, firstProbe, idleDetector.settled()]);
    },
  };

  function startLoops({ limits, regions, diskUses, randomUuid }: Foundation): ReconcileLoop[] {
    const { now } = time;
    const loop = { store, time, log, leaseOwner: randomUuid(), randomUuid };
    const reconcilers = { store, regions, now, log, limits };
    const instances = startReconcileLoop({ ...loop, table: 'instance', reconcile: instanceReconciler(foundation) });
    const volumes = startReconcileLoop({
      ...loop,
      table: 'volume',
      reconcile: makeVolumeReconciler({ ...reconcilers, diskUses, changes }),
    });
    const snapshots = startReconcileLoop({
      ...loop,
      table: 'snapshot',
      reconcile: makeSnapshotReconciler(reconcilers),
    });
    const images = startReconcileLoop({
      ...loop,
      table: 'image',
      reconcile: makeImageReconciler({ store, regions, time, log, limits }),
    });
    const bySubject = { instance: instances, volume: volumes, snapshot: snapshots, image: images };
    for (const subject of ['instance', 'volume', 'snapshot', 'image'] as const)
      changes.subscribe(subject, ({ isDue }) => {
        if (isDue) bySubject[subject].wake();
      });
    return Object.values(bySubject);
  }
}

function instanceReconciler(foundation: Foundation) {
  const { deps } = foundation;
  const semaphores = new Map<RegionDrivers, Semaphore>();
  return makeInstanceReconciler({
    ...foundation.actionDeps,
    imagePulls: foundation.imagePulls,
    credentialsFor: foundation.registries.credentialsFor,
    engineSemaphore(drivers) {
      const semaphore = semaphores.get(drivers) ?? makeSemaphore(deps.engineWidth);
      semaphores.set(drivers, semaphore);
      return semaphore;
    },
    time: foundation.time,
    random: deps.random,
    log: foundation.log,
    limits: foundation.limits,
    pidsLimit: PIDS_LIMIT,
    health: foundation.health,
    sshHostKey: foundation.sshHostKey,
  });
}

function makeTasks(foundation: Foundation): Task[] {
  const { deps, store, regions, now, taskDeps, scheduler, freeSpace, health, sampler, diskUses } = foundation;
  const { stopAutomatically, idleDetector, idleLimits, access } = foundation;
  const measurements = makeDiskMeasurements(taskDeps);
  const measureDeps = { ...taskDeps, measurements };
  const idleIntervalMs = Math.min(IDLE_INTERVAL_MS, idleLimits.checkEveryMs);
  const sweep = async (): Promise<void> => {
    for (const drivers of regions.all()) {
      if (!drivers.health.answers) continue;
      await sweepRegion(taskDeps, drivers);
      await handleOrphans(taskDeps, drivers);
    }
  };
  const sweepAllDisks = async (): Promise<void> => {
    for (const drivers of regions.all()) {
      await sweepDisks(taskDeps, drivers);
      await deleteDiskOrphans(taskDeps, drivers);
    }
  };
  const measure = async (): Promise<void> => {
    await measureInstantDisks(measureDeps);
    await measurements.publish();
    scheduler.runSoon(FULL_DISK_SCAN);
  };
  const expire = (): Promise<void> =>
    deleteExpired({ store, now, releasedListedMs: RELEASED_LISTED_MS, eventsKeptMs: deps.eventsKeptMs });
  const unmount = (): Promise<void> => unmountUnused({ ...taskDeps, inUse: diskUses.inUse });
  const task = (name: string, intervalMs: number, run: () => Promise<void>): Task => ({ name, intervalMs, run });
  return [
    task('free space', FREE_SPACE_INTERVAL_MS, () => freeSpace.measure()),
    task('probe', PROBE_INTERVAL_MS, () => probeEngines(taskDeps)),
    task(SWEEP_TASKS[0], SWEEP_INTERVAL_MS, sweep),
    task(SWEEP_TASKS[1], SWEEP_INTERVAL_MS, sweepAllDisks),
    task(FULL_DISK_SCAN, MEASURE_INTERVAL_MS, makeFullDiskScan(measureDeps)),
    task('measure disks', MEASURE_INTERVAL_MS, measure),
    task('walk disks', MEASURE_INTERVAL_MS, () => measureByWalking(measureDeps)),
    task('measure root disks', MEASURE_INTERVAL_MS, () => measureRootDisks(measureDeps)),
    task('unmount disks', UNMOUNT_INTERVAL_MS, unmount),
    task('health', HEALTH_INTERVAL_MS, () => health.check()),
    task('scheduled stops', STOP_DUE_INTERVAL_MS, makeStopDue({ ...taskDeps, stopAutomatically })),
    task('idle detection', idleIntervalMs, () => idleDetector.tick()),
    task('sample usage', SAMPLE_INTERVAL_MS, () => sampler.tick()),
    task('delete expired', EXPIRE_INTERVAL_MS, expire),
    task('sweep access', ACCESS_INTERVAL_MS, () => access.sweep()),
  ];
}
