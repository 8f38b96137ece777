/** Control, put together: use-cases on one side, the loops and timers that bring the world to their wishes on the other. */
import { makeSemaphore, type Semaphore } from '../async/semaphore.ts';
import { initialStopPolicy, type StopPolicyRules } from '../domain/stop-policy.ts';
import { defaultIdleLimits, type IdleLimits } from '../domain/idle.ts';
import type { Space } from '../domain/pool.ts';
import type { Limits } from '../domain/instance-states.ts';
import { defaultLimits } from '../domain/instance-states.ts';
import { allowsAccount } from '../domain/port-access.ts';
import { instanceNotFound, Refusal } from '../domain/refusal.ts';
import { defaultOrphanPolicy, type OrphanPolicy } from '../domain/orphan.ts';
import { instancePage, instanceRow, markOwnerFilesStale } from '../store/tables/instances.ts';
import { releaseAllLeases } from '../store/db/leases.ts';
import type { Store } from '../store/store.ts';
import { makeVolumePages } from '../store/tables/volume-pages.ts';
import { ownedVolume } from '../store/tables/volumes.ts';
import { makeAccountVersions } from './routing/account-versions.ts';
import { makeAccess, type AccessDeps, type InternalAccess } from './access/access.ts';
import { makeShares } from './access/shares.ts';
import { makeIdleDetector } from './auto-stop/idle-detector.ts';
import { makeTraffic } from './auto-stop/traffic.ts';
import { makeAction, makeStopAutomatically } from './instances/actions.ts';
import { makeCatalog } from './capacity/catalog.ts';
import { makeCommands } from './inside/commands.ts';
import { makeDiskUses } from './volumes/disk-uses.ts';
import { locateVolume } from './volumes/disks.ts';
import { makeStopPolicies } from './auto-stop/stop-policy.ts';
import { makeEventFeed } from './routing/event-feed.ts';
import { makeExpandDisk } from './instances/expand-disk.ts';
import { makeRevocations } from './routing/revocations.ts';
import { makeRoutes, routeOf } from './routing/routes.ts';
import { makeRouteTable } from './routing/route-table.ts';
import { makeFiles } from './volumes/files.ts';
import { makeHealthChecks } from './instances/health.ts';
import { makeImagePulls, type ImagePulls } from './images/image-pulls.ts';
import { makeImages } from './images/images.ts';
import { makeLaunch } from './instances/launch.ts';
import type { Log } from './base/log.ts';
import { makeLogs } from './inside/logs/logs.ts';
import { makeMetrics } from './inside/metrics/metrics.ts';
import { makeSampler } from './inside/metrics/sampler.ts';
import { startReconcileLoop, type ReconcileLoop } from './base/reconcile-loop.ts';
import { makeMountVolume } from './volumes/mount-volume.ts';
import { makeCatalogCache } from './base/catalog-cache.ts';
import { makeIdempotent } from './base/idempotent.ts';
import { makeOperations } from './instances/operations.ts';
import { makeStopDue } from './auto-stop/stop-due.ts';
import { makeImageReconciler } from './images/reconcile-image.ts';
import { makeInstanceReconciler } from './instances/reconcile-instance.ts';
import { makeDiskMeasurements } from './volumes/disk-measurements.ts';
import { deleteDiskOrphans, sweepDisks } from './orphans/disk-orphans.ts';
import { makeFullDiskScan } from './volumes/full-disk-scan.ts';
import { measureInstantDisks, measureByWalking } from './volumes/disk-usage.ts';
import { probeEngines, type ProbeDeps } from './capacity/probe.ts';
import { handleOrphans, type HandleOrphansDeps } from './orphans/handle-orphans.ts';
import { measureRootDisks } from './volumes/root-disk-usage.ts';
import { sweepRegion, watchEngines } from './orphans/sweep.ts';
import { makePorts, type PortDeps } from './routing/ports.ts';
import { deleteExpired } from './base/delete-expired.ts';
import { makeSnapshotReconciler } from './volumes/reconcile-snapshot.ts';
import { unmountUnused } from './volumes/unmount.ts';
import { makeVolumeReconciler } from './volumes/reconcile-volume.ts';
import type { RegionDrivers, Regions } from './base/regions.ts';
import { makeRegistries } from './images/registries.ts';
import { makeFreeSpaceMonitor, type FreeSpaceMonitor } from './volumes/free-space.ts';
import { makeSeal } from './base/seal.ts';
import { makeSshHostKeys, makeSshIdentity } from './routing/ssh-host-key.ts';
import { makeOrphans } from './orphans/orphans.ts';
import { makeTerminalHost } from './inside/terminals/local-host.ts';
import type { TerminalHost } from './inside/terminals/terminal-host.ts';
import { makeTerminals } from './inside/terminals/terminals.ts';
import type { Time } from './base/time.ts';
import { makeSnapshots } from './volumes/snapshots.ts';
import { makeVolumes } from './volumes/volumes.ts';
import type { Caller } from './base/caller.ts';
import type { Control } from './index.ts';

export interface ControlDeps {
  store: Store;
  regions: Regions;
  log: Log;
  time: Time;
  /** 0 ≤ n < 1; draws node ports. */
  random: () => number;
  randomUuid: () => string;
  randomBytes: (size: number) => Uint8Array;
  /** 32 bytes; what has to be kept and handed on, such as registry secrets, is sealed with it. */
  secretsKey: Uint8Array;
  /** Where a browser trades the key for a session of the gateway, and sees the notebook, or that port. */
  openUrl: (link: { instanceId: string; port: number | undefined; key: string }) => string;
  /** Where a port is behind the gateway: below its address, and on a host of its own where it has one. */
  portUrls: PortDeps['portUrls'];
  /** The link that opens a port to whoever has it. */
  shareUrl: (link: { instanceId: string; port: number; token: string }) => string;
  issuer: string;
  audience: string;
  argon2id?: AccessDeps['argon2id'];
  /** Containers brought up at once: about four for each core of the engine. */
  engineWidth: number;
  /** Of the place that the database lies on. */
  dataSpace: () => Promise<Space>;
  cpuOvercommit: number;
  hostMemoryMiB: number;
  onEngineAnswers: ProbeDeps['onEngineAnswers'];
  limits?: Partial<Limits>;
  /** What the operator sets about the ends of instances; if not given, nothing. */
  endsRules?: StopPolicyRules;
  idleLimits?: Partial<IdleLimits>;
  /** What becomes of objects of ours that no intent explains. */
  orphans?: OrphanPolicy;
  /** Whether accounts may name registries on the engine's own host; not, if not given. */
  localRegistries?: boolean;
  /** How long events and past operations are kept; 30 days if not given. */
  eventsKeptMs?: number;
  /** Where the gateway is a process of its own, it holds the terminals; not given, they are held here. */
  terminals?: TerminalHost;
  /** True where no other process shares the store: leases that stand are those of a dead one. */
  alone: boolean;
}

export interface RunningControl {
  control: Control;
  access: InternalAccess;
  imagePulls: ImagePulls;
  freeSpace: FreeSpaceMonitor;
  /** Starts loops, watches and timers. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const PIDS_LIMIT = 4096;
const RELEASED_LISTED_MS = 3_600_000;
const ROOM_EVERY_MS = 10_000;
const PROBE_EVERY_MS = 10_000;
/** A stray must be seen twice, and is to be found within a minute. */
const SWEEP_EVERY_MS = 25_000;
/** What disks hold is to be told within half a minute. */
const MEASURE_EVERY_MS = 20_000;
const UNMOUNT_EVERY_MS = 30_000;
const HEALTH_EVERY_MS = 5_000;
const TIDY_EVERY_MS = 60_000;
const ENDS_EVERY_MS = 1_000;
/** Whose time it is to be looked at is asked so often, and so late may an idle stop come. */
const ACTIVITY_EVERY_MS = 1_000;
/** So late may a sample be. */
const SAMPLER_EVERY_MS = 1_000;
const ACCESS_SWEEP_EVERY_MS = 3_600_000;

export function makeControl(deps: ControlDeps): RunningControl {
  const { store, regions, log, time, randomUuid, localRegistries = false } = deps;
  const { now } = time;
  const limits = { ...defaultLimits, ...deps.limits };
  const readCatalog = makeCatalogCache({ store, time });
  const imagePulls = makeImagePulls();
  const seal = makeSeal({ key: deps.secretsKey, randomBytes: deps.randomBytes });
  const sshHostKey = makeSshHostKeys(deps.secretsKey);
  const idempotent = makeIdempotent(deps.secretsKey);
  const registries = makeRegistries({ store, now, idempotent, randomUuid, seal, localRegistries });
  const routes = makeRoutes({ store, regions, time });
  const heldHere = makeTerminalHost({ engine: routes, holder: randomUuid(), time, log });
  const routeTable = makeRouteTable({ store, time, log });
  const endings = makeRevocations();
  const routeChanged = (instanceId: string): void => {
    routes.invalidate(instanceId);
    routeTable.changed(instanceId);
    endings.publish({ instanceId });
  };
  const semaphores = new Map<RegionDrivers, Semaphore>();
  const engineSemaphore = (drivers: RegionDrivers): Semaphore => {
    const semaphore = semaphores.get(drivers) ?? makeSemaphore(deps.engineWidth);
    semaphores.set(drivers, semaphore);
    return semaphore;
  };

  let instanceLoop: ReconcileLoop | null = null;
  let volumeLoop: ReconcileLoop | null = null;
  let snapshotLoop: ReconcileLoop | null = null;
  let imageLoop: ReconcileLoop | null = null;
  const wakeInstances = () => instanceLoop?.wake();
  const wake = () => {
    instanceLoop?.wake();
    volumeLoop?.wake();
    snapshotLoop?.wake();
    imageLoop?.wake();
  };
  const access = makeAccess({
    ...deps,
    now,
    idempotent,
    onSshKeysChanged: (tx, accountId) => markOwnerFilesStale(tx, accountId, now()),
  });
  const shares = makeShares({ ...deps, now, idempotent });
  /** The loop is woken after the commit, or it would not see what the deed made due. */
  const waking =
    <Given extends unknown[], Answer>(deed: (...given: Given) => Promise<Answer>) =>
    async (...given: Given): Promise<Answer> => {
      const answer = await deed(...given);
      wakeInstances();
      return answer;
    };
  /** What is open by what such a deed ends is looked at anew after the commit. */
  const cutting =
    <More extends unknown[], Answer>(deed: (caller: Caller, ...more: More) => Promise<Answer>) =>
    async (caller: Caller, ...more: More): Promise<Answer> => {
      const answer = await deed(caller, ...more);
      endings.publish({ accountId: caller.accountId });
      return answer;
    };
  const ending = new AbortController();
  const orphans = deps.orphans ?? defaultOrphanPolicy;
  const deedDeps: ProbeDeps & HandleOrphansDeps = {
    store,
    regions,
    now,
    time,
    log,
    wake,
    cpuOvercommit: deps.cpuOvercommit,
    hostMemoryMiB: deps.hostMemoryMiB,
    onEngineAnswers: deps.onEngineAnswers,
    ending: ending.signal,
    orphans,
    stopGraceMs: limits.stopGraceMs,
  };
  let sweepSoon = (): void => {};
  const health = makeHealthChecks(deedDeps);
  const actionDeps = { store, regions, readCatalog, now, idempotent, wake: wakeInstances, routeChanged };
  const endsRules = deps.endsRules ?? { capRunMs: null, idle: null };
  const stopAutomatically = makeStopAutomatically(actionDeps);
  const traffic = makeTraffic(now);
  const idleLimits = { ...defaultIdleLimits, ...deps.idleLimits };
  const activity = makeIdleDetector({ ...deedDeps, limits: idleLimits, traffic, stopAutomatically });
  const freeSpace = makeFreeSpaceMonitor({ ...deedDeps, dataSpace: deps.dataSpace });
  const { get, ...operations } = makeOperations(actionDeps);
  const moves = makeAccountVersions({ store, time, log });
  const events = makeEventFeed({ store, moves });
  const logs = makeLogs({ store, regions, time, moves });
  const sampler = makeSampler(deedDeps);
  const diskUses = makeDiskUses();
  const volumeDeps = {
    store,
    regions,
    freeSpace,
    pages: makeVolumePages(),
    readCatalog,
    now,
    idempotent,
    randomUuid,
    wake: () => volumeLoop?.wake(),
  };

  const randomSecret = (): string => Buffer.from(deps.randomBytes(32)).toString('base64url');

  const control: Control = {
    access: {
      ...access,
      createSshKey: waking(access.createSshKey),
      deleteSshKey: waking(access.deleteSshKey),
      logout: cutting(access.logout),
      changePassword: cutting(access.changePassword),
      deleteApiKey: cutting(access.deleteApiKey),
      revokeSession: cutting(access.revokeSession),
    },
    catalog: makeCatalog({ readCatalog, regions, store, now }),
    images: makeImages({
      store,
      readCatalog,
      regions,
      imagePulls,
      now,
      idempotent,
      randomUuid,
      localRegistries,
      wake: () => imageLoop?.wake(),
    }),
    registries,
    volumes: makeVolumes(volumeDeps),
    snapshots: makeSnapshots({ ...volumeDeps, wakeSnapshots: () => snapshotLoop?.wake() }),
    files: makeFiles({
      findVolume: (accountId, id) => ownedVolume(store.read, accountId, id),
      mountVolume: makeMountVolume({ locate: (volume) => locateVolume(store.read, regions, volume), time }),
      uses: diskUses,
    }),
    instances: {
      launch: makeLaunch({
        store,
        readCatalog,
        regions,
        freeSpace,
        now,
        idempotent,
        randomUuid,
        randomSecret,
        firstEnds: initialStopPolicy(endsRules),
        wake: wakeInstances,
      }),
      list: (caller, { currentPage, pageSize }) =>
        instancePage(store.read, caller.accountId, (currentPage - 1) * pageSize, pageSize),
      start: makeAction('start', actionDeps),
      stop: makeAction('stop', actionDeps),
      restart: makeAction('restart', actionDeps),
      archive: makeAction('archive', actionDeps),
      terminate: makeAction('terminate', actionDeps),
      expandDisk: makeExpandDisk({ ...actionDeps, freeSpace }),
      get,
      async open(caller, { instanceId, port }) {
        const row = await instanceRow(store.read, instanceId);
        if (!row || row.desired === 'released') throw instanceNotFound();
        const setTo = (port !== undefined && routeOf(row).access.get(port)) || 'owner';
        if (!allowsAccount(setTo, caller.accountId, row.ownerId)) throw instanceNotFound();
        const key = await access.grants.grant(caller, instanceId);
        return { url: deps.openUrl({ instanceId, port, key }) };
      },
    },
    operations,
    events,
    orphans: makeOrphans({
      store,
      readCatalog,
      regions,
      time,
      log,
      randomSecret,
      firstEnds: initialStopPolicy(endsRules),
      wake: wakeInstances,
      orphans,
      sweepSoon: () => sweepSoon(),
    }),
    ports: {
      ...makePorts({ store, readCatalog, now, routeChanged, portUrls: deps.portUrls }),
      share: shares.share,
      shares: shares.shares,
      async unshare(caller, body, idempotency) {
        await shares.unshare(caller, body, idempotency);
        routeChanged(body.instanceId);
      },
    },
    stopPolicies: makeStopPolicies({ store, readCatalog, now, rules: endsRules, idleDetector: activity }),
    commands: makeCommands({ store, openExec: routes.openExec, began: traffic.beginTraffic, time }),
    terminals: makeTerminals({ store, terminals: deps.terminals ?? heldHere, began: traffic.beginTraffic }),
    metrics: makeMetrics({ store, now, sampler }),
    logs,
    forwarding: {
      route: routes.route,
      dial: routes.dial,
      beginTraffic: traffic.beginTraffic,
      redeem: access.grants.redeem,
      session: access.grants.session,
      share: shares.resolve,
      onRevoked: endings.onRevoked,
      ssh: makeSshIdentity({ store, sshHostKey }),
    },
    routeTable: { follow: routeTable.follow },
    versionOf: async (accountId) => store.versionOf(accountId),
    async health() {
      try {
        await store.ping();
      } catch (error) {
        log.error({ err: error }, 'the store does not answer');
        return { ready: false, text: 'the store does not answer' };
      }
      return {
        ready: true,
        text: regions
          .all()
          .map(({ seen }) => seen.text)
          .join('; '),
      };
    },
  };

  const timers: (() => void)[] = [];
  const running = new Set<Promise<void>>();
  /** Runs a timed deed, one at a time, and says in the log when it failed. Answers what does it now, or once more if it is under way. */
  const every = (ms: number, name: string, deed: () => Promise<void>): (() => void) => {
    let busy = false;
    let wanted = false;
    const tick = (): void => {
      if (busy || ending.signal.aborted) return;
      busy = true;
      wanted = false;
      const one: Promise<void> = deed()
        .catch((error: unknown) =>
          log.warn({ err: error, deed: name }, 'a timed deed failed; it is done again in its time'),
        )
        .finally(() => {
          busy = false;
          running.delete(one);
          if (wanted) tick();
        });
      running.add(one);
    };
    timers.push(time.every(ms, tick));
    return () => {
      wanted = true;
      tick();
    };
  };
  const sweepAll = async (): Promise<void> => {
    for (const drivers of regions.all()) {
      if (!drivers.seen.answers) continue;
      await sweepRegion(deedDeps, drivers);
      await handleOrphans(deedDeps, drivers);
    }
  };
  const sweepAllDisks = async (): Promise<void> => {
    for (const drivers of regions.all()) {
      await sweepDisks(deedDeps, drivers);
      await deleteDiskOrphans(deedDeps, drivers);
    }
  };
  const measurements = makeDiskMeasurements(deedDeps);
  const measureDeps = { ...deedDeps, measurements };

  return {
    control,
    access,
    imagePulls,
    freeSpace,
    async start() {
      if (deps.alone) await store.write((tx) => releaseAllLeases(tx, now()));
      const leaseOwner = randomUuid();
      const loop = { store, time, log, leaseOwner, randomUuid };
      const instancePass = makeInstanceReconciler({
        store,
        regions,
        readCatalog,
        imagePulls,
        credentialsFor: registries.credentialsFor,
        engineSemaphore,
        now,
        time,
        random: deps.random,
        log,
        limits,
        pidsLimit: PIDS_LIMIT,
        health,
        sshHostKey,
        routeChanged,
        wake: wakeInstances,
      });
      instanceLoop = startReconcileLoop({ ...loop, table: 'instance', reconcile: instancePass });
      volumeLoop = startReconcileLoop({
        ...loop,
        table: 'volume',
        reconcile: makeVolumeReconciler({ store, regions, now, log, limits, diskUses, wakeInstances }),
      });
      snapshotLoop = startReconcileLoop({
        ...loop,
        table: 'snapshot',
        reconcile: makeSnapshotReconciler({ store, regions, now, log, limits }),
      });
      imageLoop = startReconcileLoop({
        ...loop,
        table: 'image',
        reconcile: makeImageReconciler({ store, regions, time, log, limits }),
      });
      watchEngines(deedDeps);
      every(ROOM_EVERY_MS, 'free space', () => freeSpace.measure());
      every(PROBE_EVERY_MS, 'probe', () => probeEngines(deedDeps));
      const sweep = every(SWEEP_EVERY_MS, 'sweep', sweepAll);
      const sweepAgain = every(SWEEP_EVERY_MS, 'sweep disks', sweepAllDisks);
      sweepSoon = () => {
        sweep();
        sweepAgain();
      };
      const lookIntoFull = every(MEASURE_EVERY_MS, 'full disks', makeFullDiskScan(measureDeps));
      every(MEASURE_EVERY_MS, 'measure disks', async () => {
        await measureInstantDisks(measureDeps);
        await measurements.publish();
        lookIntoFull();
      });
      every(MEASURE_EVERY_MS, 'walk disks', () => measureByWalking(measureDeps));
      every(MEASURE_EVERY_MS, 'measure root disks', () => measureRootDisks(measureDeps));
      every(UNMOUNT_EVERY_MS, 'unmount disks', () => unmountUnused({ ...deedDeps, inUse: diskUses.inUse }));
      every(HEALTH_EVERY_MS, 'health', () => health.check());
      every(ENDS_EVERY_MS, 'ends', makeStopDue({ ...deedDeps, stopAutomatically }));
      every(Math.min(ACTIVITY_EVERY_MS, idleLimits.checkEveryMs), 'activity', () => activity.tick());
      every(SAMPLER_EVERY_MS, 'sample figures', () => sampler.tick());
      every(TIDY_EVERY_MS, 'tidy', () =>
        deleteExpired({ store, now, releasedListedMs: RELEASED_LISTED_MS, eventsKeptMs: deps.eventsKeptMs }),
      );
      every(ACCESS_SWEEP_EVERY_MS, 'access', () => access.sweep());
      const first: Promise<void> = probeEngines(deedDeps)
        .catch((error: unknown) => log.warn({ err: error }, 'the first probe failed'))
        .finally(() => running.delete(first));
      running.add(first);
    },
    async stop() {
      ending.abort();
      events.stop();
      logs.stop();
      await heldHere.stop();
      for (const end of timers) end();
      await diskUses.stop(new Refusal('unavailable', 'the server is being stopped', { retryAfterS: 1 }));
      await Promise.all([instanceLoop, volumeLoop, snapshotLoop, imageLoop].map(async (loop) => loop?.stop()));
      await Promise.allSettled([...running, activity.settled()]);
    },
  };
}
