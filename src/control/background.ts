/** Control in the background: reconcile loops, hints of engines, and a table of periodic tasks. */
import { subjectKinds } from '../domain/operation.ts';
import { Refusal } from '../domain/refusal.ts';
import { releaseAllLeases } from '../store/db/leases.ts';
import { makeSemaphore, type Semaphore } from '../async/semaphore.ts';
import { startReconcileLoop, type ReconcileLoop } from './base/reconcile-loop.ts';
import { makeDeleteAccounts } from './access/delete-accounts.ts';
import { beginMetering } from './billing/begin-metering.ts';
import { makeChargeUsage } from './billing/charge-usage.ts';
import { makeFollowBudgets } from './billing/follow-budgets.ts';
import { makeFollowMoney } from './billing/follow-money.ts';
import { makeRenewPaidTime } from './billing/renew-paid-time.ts';
import { makeStopDisabled } from './auto-stop/stop-disabled.ts';
import { makeOffPeakWindows } from './auto-stop/off-peak-windows.ts';
import { makeResume } from './auto-stop/resume-stopped.ts';
import { makeStopDue } from './auto-stop/stop-policy.ts';
import { makeImageReconciler } from './images/reconcile-image.ts';
import { makeApplyEgress } from './instances/egress.ts';
import { makeInstanceReconciler } from './instances/reconcile-instance.ts';
import { makeDiskMeasurements } from './volumes/disk-measurements.ts';
import { deleteDiskOrphans, sweepDisks } from './orphans/disk-orphans.ts';
import { makeFullDiskScan, measureByWalking, measureInstantDisks, measureRootDisks } from './volumes/disk-usage.ts';
import { makeDiskWatch } from './volumes/disk-watch.ts';
import { makeReclaimSpots } from './capacity/reclaim-spots.ts';
import { makeDrainStops } from './capacity/drain.ts';
import { makeApplyPrices } from './catalog/due-prices.ts';
import { makeRegionTexts } from './catalog/region-texts.ts';
import { makeProbe } from './capacity/probe.ts';
import { handleOrphans } from './orphans/handle-orphans.ts';
import { sweepRegion, watchEngines } from './orphans/sweep.ts';
import { deleteExpired } from './base/delete-expired.ts';
import { makeSnapshotReconciler } from './volumes/reconcile-snapshot.ts';
import { unmountUnused } from './volumes/mounts.ts';
import { makeVolumeReconciler } from './volumes/reconcile-volume.ts';
import { makeEachRegion, type RegionDrivers } from './base/regions.ts';
import type { Task } from './base/scheduler.ts';
import type { Foundation } from './base/foundation.ts';

export interface Background {
  start(): Promise<void>;
  stop(): Promise<void>;
}

const RESERVE_INTERVAL_MS = 1_000;
const FREE_SPACE_INTERVAL_MS = 10_000;
/** Other processes may change the policies. */
const EGRESS_INTERVAL_MS = 3_000;
const PROBE_INTERVAL_MS = 10_000;
/** An orphan must be seen twice, and is to be found within a minute. */
const SWEEP_INTERVAL_MS = 25_000;
/** Disk usage is shown within half a minute. */
const MEASURE_INTERVAL_MS = 20_000;
/** A root disk past its size is found within seconds. */
const DISK_WATCH_INTERVAL_MS = 1_000;
const ALLOCATE_INTERVAL_MS = 60_000;
const UNMOUNT_INTERVAL_MS = 30_000;
const UNMOUNT_AT_STOP_MS = 10_000;
const HEALTH_INTERVAL_MS = 5_000;
const EXPIRE_INTERVAL_MS = 60_000;
const STOP_DUE_INTERVAL_MS = 1_000;
const IDLE_INTERVAL_MS = 1_000;
const SAMPLE_INTERVAL_MS = 1_000;
const DISABLED_INTERVAL_MS = 5_000;
const DELETE_ACCOUNTS_INTERVAL_MS = 10_000;
/** Records are sealed within a second. */
const SEAL_INTERVAL_MS = 500;
const REGION_TEXTS_INTERVAL_MS = 3_000;
const WEBHOOK_INTERVAL_MS = 1_000;
const ACCESS_INTERVAL_MS = 3_600_000;
/** Books each minute within seconds of its end. */
const CHARGE_INTERVAL_MS = 10_000;
const RENEW_INTERVAL_MS = 1_000;
const PRICES_INTERVAL_MS = 1_000;

/** Tasks that an operator's request runs at once. */
export const SWEEP_TASKS = ['sweep', 'sweep disks'] as const;
/** Stops the instances of disabled accounts. */
export const DISABLED_TASK = 'disabled accounts';
export const EGRESS_TASK = 'egress policies';
export const PROBE_TASK = 'probe';
export const REGION_TEXTS_TASK = 'region texts';
const FULL_DISK_SCAN = 'scan full disks';

export function makeBackground(foundation: Foundation): Background {
  const { store, time, log, scheduler, diskHolders, idleDetector } = foundation;
  let loops: ReconcileLoop[] = [];
  let firstProbe: Promise<void> = Promise.resolve();
  const probe = makeProbe(foundation);
  const applyEgress = makeApplyEgress(foundation);
  return {
    async start() {
      if (foundation.alone) await store.write((tx) => releaseAllLeases(tx, time.now()));
      await beginMetering(foundation);
      // Before a loop starts instances: an engine enforces what it knows.
      await applyEgress();
      loops = startLoops(foundation);
      watchEngines(foundation);
      scheduler.start(makeTasks(foundation, probe, async () => void (await (await applyEgress()).passed)));
      firstProbe = probe().catch((error: unknown) => log.warn({ err: error }, 'the first probe failed'));
    },
    async stop() {
      const idle = scheduler.stop();
      await diskHolders.stop(new Refusal('unavailable', 'the server is stopping', { retryAfterS: 1 }));
      await Promise.all(loops.map((loop) => loop.stop()));
      await Promise.allSettled([idle, firstProbe, idleDetector.settled()]);
      await foundation.webhookDelivery.idle();
      await foundation.audit.stop();
      await unmountAtStop(foundation);
    },
  };
}

/** Running instances keep their mounts. */
async function unmountAtStop(foundation: Foundation): Promise<void> {
  const stopping = foundation.time.deadline(UNMOUNT_AT_STOP_MS);
  const deps = { ...foundation, stopping, inUse: () => false };
  const unmountAll = makeEachRegion(foundation.regions, (drivers) => unmountUnused(deps, drivers));
  await unmountAll().catch((error: unknown) =>
    foundation.log.warn({ err: error }, 'could not unmount all unused disks'),
  );
}

function startLoops(foundation: Foundation): ReconcileLoop[] {
  const deps = { ...foundation, leaseOwner: foundation.randomUuid() };
  const loops = {
    instance: startReconcileLoop({ ...deps, table: 'instance', reconcile: instanceReconciler(foundation) }),
    volume: startReconcileLoop({ ...deps, table: 'volume', reconcile: makeVolumeReconciler(foundation) }),
    snapshot: startReconcileLoop({ ...deps, table: 'snapshot', reconcile: makeSnapshotReconciler(foundation) }),
    image: startReconcileLoop({ ...deps, table: 'image', reconcile: makeImageReconciler(foundation) }),
  };
  for (const subject of subjectKinds)
    foundation.changes.subscribe(subject, ({ isDue }) => {
      if (isDue) loops[subject].wake();
    });
  return Object.values(loops);
}

function instanceReconciler(foundation: Foundation) {
  const semaphores = new WeakMap<RegionDrivers, Semaphore>();
  return makeInstanceReconciler({
    ...foundation,
    credentialsFor: foundation.registries.credentialsFor,
    engineSemaphore(drivers) {
      const semaphore = semaphores.get(drivers) ?? makeSemaphore(foundation.engineWidth);
      semaphores.set(drivers, semaphore);
      return semaphore;
    },
  });
}

function makeTasks(foundation: Foundation, probe: () => Promise<void>, applyEgress: () => Promise<void>): Task[] {
  const {
    regions,
    reserve,
    scheduler,
    freeSpace,
    health,
    sampler,
    diskHolders,
    idleDetector,
    idleLimits,
    access,
    audit,
  } = foundation;
  const measurements = makeDiskMeasurements(foundation);
  const measureDeps = { ...foundation, measurements };
  const unmountDeps = { ...foundation, inUse: diskHolders.inUse };
  const idleIntervalMs = Math.min(IDLE_INTERVAL_MS, idleLimits.checkEveryMs);
  const sweep = async (drivers: RegionDrivers): Promise<void> => {
    if (!drivers.health.answers) return;
    const seenAtMs = foundation.metering.clock.now();
    const seen = await sweepRegion(foundation, drivers);
    foundation.metering.saw(drivers.regionId, seenAtMs, seen);
    await handleOrphans(foundation, drivers);
  };
  const sweepAllDisks = async (drivers: RegionDrivers): Promise<void> => {
    await sweepDisks(foundation, drivers);
    await deleteDiskOrphans(foundation, drivers);
  };
  const measure = async (drivers: RegionDrivers): Promise<void> => {
    await measureInstantDisks(measureDeps, drivers);
    await measurements.publish();
    scheduler.runSoon(FULL_DISK_SCAN);
  };
  const task = (name: string, intervalMs: number, run: () => Promise<void>): Task => ({ name, intervalMs, run });
  const overlapping = (...given: Parameters<typeof task>): Task => ({ ...task(...given), overlaps: true });
  const inEach = (name: string, intervalMs: number, work: (drivers: RegionDrivers) => Promise<void>): Task =>
    overlapping(name, intervalMs, makeEachRegion(regions, work));
  return [
    task('space reserve', RESERVE_INTERVAL_MS, () => reserve.check()),
    overlapping('free space', FREE_SPACE_INTERVAL_MS, () => freeSpace.measure()),
    overlapping(PROBE_TASK, PROBE_INTERVAL_MS, probe),
    overlapping(EGRESS_TASK, EGRESS_INTERVAL_MS, applyEgress),
    inEach(SWEEP_TASKS[0], SWEEP_INTERVAL_MS, sweep),
    inEach(SWEEP_TASKS[1], SWEEP_INTERVAL_MS, sweepAllDisks),
    task(FULL_DISK_SCAN, MEASURE_INTERVAL_MS, makeFullDiskScan(measureDeps)),
    inEach('measure disks', MEASURE_INTERVAL_MS, measure),
    inEach('walk disks', MEASURE_INTERVAL_MS, (drivers) => measureByWalking(measureDeps, drivers)),
    inEach('measure root disks', MEASURE_INTERVAL_MS, (drivers) => measureRootDisks(measureDeps, drivers)),
    task('watch disks', DISK_WATCH_INTERVAL_MS, makeDiskWatch(measureDeps)),
    task('allocate volumes', ALLOCATE_INTERVAL_MS, () => foundation.allocator.run()),
    inEach('unmount disks', UNMOUNT_INTERVAL_MS, (drivers) => unmountUnused(unmountDeps, drivers)),
    task('health', HEALTH_INTERVAL_MS, () => health.check()),
    task('scheduled stops', STOP_DUE_INTERVAL_MS, makeStopDue(foundation)),
    task('off-peak windows', STOP_DUE_INTERVAL_MS, makeOffPeakWindows(foundation)),
    task('reclaim spot instances', STOP_DUE_INTERVAL_MS, makeReclaimSpots(foundation)),
    task('resume', STOP_DUE_INTERVAL_MS, makeResume(foundation)),
    task('stops of drains', STOP_DUE_INTERVAL_MS, makeDrainStops(foundation)),
    task(DISABLED_TASK, DISABLED_INTERVAL_MS, makeStopDisabled(foundation)),
    task('delete accounts', DELETE_ACCOUNTS_INTERVAL_MS, makeDeleteAccounts(foundation)),
    task('idle detection', idleIntervalMs, () => idleDetector.tick()),
    task('sample usage', SAMPLE_INTERVAL_MS, async () => (reserve.isFull() ? undefined : sampler.tick())),
    task('delete expired', EXPIRE_INTERVAL_MS, () => deleteExpired(foundation)),
    task('deliver webhooks', WEBHOOK_INTERVAL_MS, () => foundation.webhookDelivery.tick()),
    task('scheduled prices', PRICES_INTERVAL_MS, makeApplyPrices(foundation)),
    task('renew paid time', RENEW_INTERVAL_MS, makeRenewPaidTime(foundation)),
    task('charge usage', CHARGE_INTERVAL_MS, makeChargeUsage(foundation)),
    task('follow money', CHARGE_INTERVAL_MS, makeFollowMoney(foundation)),
    task('follow budgets', CHARGE_INTERVAL_MS, makeFollowBudgets(foundation)),
    task('seal audit log', SEAL_INTERVAL_MS, () => audit.seal()),
    task('delete old audit records', EXPIRE_INTERVAL_MS, () => audit.deleteOld()),
    task(REGION_TEXTS_TASK, REGION_TEXTS_INTERVAL_MS, makeRegionTexts(foundation)),
    task('sweep access', ACCESS_INTERVAL_MS, () => access.sweep()),
  ];
}
