/** Options of control, and the parts shared by its use cases and background tasks. */
import type { StopPolicyRules } from '../domain/stop-policy.ts';
import { defaultIdleLimits, type IdleLimits } from '../domain/idle.ts';
import type { Space } from '../domain/pool.ts';
import type { Limits } from '../domain/instance-states.ts';
import { defaultLimits } from '../domain/instance-states.ts';
import { defaultOrphanPolicy, type OrphanPolicy } from '../domain/orphan.ts';
import { markOwnerFilesStale } from '../store/tables/instances.ts';
import type { Store } from '../store/store.ts';
import { makeAccountVersions } from './routing/account-versions.ts';
import { makeAccess, type AccessDeps } from './access/access.ts';
import { makeShares } from './access/shares.ts';
import { makeIdleDetector } from './auto-stop/idle-detector.ts';
import { makeTraffic } from './auto-stop/traffic.ts';
import { makeStopAutomatically } from './instances/actions.ts';
import { makeDiskUses } from './volumes/disk-uses.ts';
import { makeRevocations } from './routing/revocations.ts';
import { makeRoutes } from './routing/routes.ts';
import { makeRouteTable } from './routing/route-table.ts';
import { makeHealthChecks } from './instances/health.ts';
import { makeImagePulls } from './images/image-pulls.ts';
import type { Log } from './base/log.ts';
import { makeSampler } from './inside/metrics/sampler.ts';
import { makeCatalogCache } from './base/catalog-cache.ts';
import { makeIdempotent } from './base/idempotent.ts';
import type { ProbeDeps } from './capacity/probe.ts';
import type { HandleOrphansDeps } from './orphans/handle-orphans.ts';
import type { PortDeps } from './routing/ports.ts';
import type { Regions } from './base/regions.ts';
import { makeRegistries } from './images/registries.ts';
import { makeFreeSpaceMonitor } from './volumes/free-space.ts';
import { makeSeal } from './base/seal.ts';
import { makeSshHostKeys } from './routing/ssh-host-key.ts';
import type { TerminalHost } from './inside/terminals/terminal-host.ts';
import type { Time } from './base/time.ts';
import { makeChanges } from './base/changes.ts';
import { makeScheduler } from './base/scheduler.ts';

export interface ControlDeps {
  store: Store;
  regions: Regions;
  log: Log;
  time: Time;
  /** In [0, 1); draws node ports. */
  random: () => number;
  randomUuid: () => string;
  randomBytes: (size: number) => Uint8Array;
  /** 32 bytes; seals what Berth passes on, such as registry secrets. */
  secretsKey: Uint8Array;
  /** Redeems the key for a gateway session, and opens the notebook or the port. */
  openUrl: (link: { instanceId: string; port: number | undefined; key: string }) => string;
  /** Gateway addresses of a port: by path, and by host where ports have one. */
  portUrls: PortDeps['portUrls'];
  shareUrl: (link: { instanceId: string; port: number; token: string }) => string;
  issuer: string;
  audience: string;
  argon2id?: AccessDeps['argon2id'];
  /** Concurrent container starts; about four per core of the engine. */
  engineWidth: number;
  dataSpace: () => Promise<Space>;
  cpuOvercommit: number;
  hostMemoryMiB: number;
  onEngineAnswers: ProbeDeps['onEngineAnswers'];
  limits?: Partial<Limits>;
  endsRules?: StopPolicyRules;
  idleLimits?: Partial<IdleLimits>;
  orphans?: OrphanPolicy;
  /** Whether accounts may use registries at loopback addresses; default no. */
  localRegistries?: boolean;
  /** Retention of events and finished operations; default 30 days. */
  eventsKeptMs?: number;
  /** Terminals of a separate gateway process; default: local ones. */
  terminals?: TerminalHost;
  /** True if no other process shares the store: existing leases are stale. */
  alone: boolean;
}

export type Foundation = ReturnType<typeof makeFoundation>;

export function makeFoundation(deps: ControlDeps) {
  const { store, regions, log, time } = deps;
  const { now } = time;
  const limits = { ...defaultLimits, ...deps.limits };
  const stopping = new AbortController();
  const changes = makeChanges();
  const readCatalog = makeCatalogCache({ store, time });
  const idempotent = makeIdempotent(deps.secretsKey);
  const routes = makeRoutes({ store, regions, time });
  const routeTable = makeRouteTable({ store, time, log });
  const revocations = makeRevocations();
  changes.subscribe('instance', ({ id }) => {
    if (id === undefined) return;
    routes.invalidate(id);
    routeTable.changed(id);
    revocations.publish({ instanceId: id });
  });
  changes.subscribe('account', ({ id }) => {
    if (id !== undefined) revocations.publish({ accountId: id });
  });
  const access = makeAccess({
    ...deps,
    now,
    idempotent,
    onSshKeysChanged: (tx, accountId) => markOwnerFilesStale(tx, accountId, now()),
  });
  const taskDeps: ProbeDeps & HandleOrphansDeps = {
    store,
    regions,
    now,
    time,
    log,
    changes,
    cpuOvercommit: deps.cpuOvercommit,
    hostMemoryMiB: deps.hostMemoryMiB,
    onEngineAnswers: deps.onEngineAnswers,
    stopping: stopping.signal,
    orphans: deps.orphans ?? defaultOrphanPolicy,
    stopGraceMs: limits.stopGraceMs,
  };
  const traffic = makeTraffic(now);
  const idleLimits = { ...defaultIdleLimits, ...deps.idleLimits };
  const actionDeps = { store, regions, readCatalog, now, idempotent, changes };
  const stopAutomatically = makeStopAutomatically(actionDeps);
  const seal = makeSeal({ key: deps.secretsKey, randomBytes: deps.randomBytes });
  const { randomUuid, localRegistries = false } = deps;
  return {
    ...actionDeps,
    deps,
    log,
    time,
    limits,
    stopping,
    randomUuid,
    randomSecret: (): string => Buffer.from(deps.randomBytes(32)).toString('base64url'),
    localRegistries,
    stopPolicyRules: deps.endsRules ?? { capRunMs: null, idle: null },
    access,
    shares: makeShares({ ...deps, now, idempotent }),
    routes,
    routeTable,
    revocations,
    taskDeps,
    actionDeps,
    traffic,
    idleLimits,
    stopAutomatically,
    idleDetector: makeIdleDetector({ ...taskDeps, limits: idleLimits, traffic, stopAutomatically }),
    imagePulls: makeImagePulls(),
    registries: makeRegistries({ store, now, idempotent, randomUuid, seal, localRegistries }),
    sshHostKey: makeSshHostKeys(deps.secretsKey),
    accountVersions: makeAccountVersions({ store, time, log }),
    freeSpace: makeFreeSpaceMonitor({ ...taskDeps, dataSpace: deps.dataSpace }),
    sampler: makeSampler(taskDeps),
    diskUses: makeDiskUses(),
    health: makeHealthChecks(taskDeps),
    scheduler: makeScheduler({ time, log, stopping: stopping.signal }),
  };
}
