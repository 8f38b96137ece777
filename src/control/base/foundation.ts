/** Options of control, and the parts shared by its use cases and background tasks. */
import { initialStopPolicy, type StopPolicyRules } from '../../domain/stop-policy.ts';
import { defaultIdleLimits, type IdleLimits } from '../../domain/idle.ts';
import type { MoneyRules } from '../../domain/money-ladder.ts';
import type { ReserveShare, Space } from '../../domain/pool.ts';
import { defaultLimits, type Limits } from '../../domain/instance-states.ts';
import { defaultOrphanPolicy, type OrphanPolicy } from '../../domain/orphan.ts';
import { permanentHold, type Hold } from '../../store/db/database-lock.ts';
import { noReserve, type SpaceReserve } from '../../store/db/space-reserve.ts';
import { markFilesStale } from '../../store/tables/instances.ts';
import { makeQuoteSigner } from '../billing/quote-signature.ts';
import { makeMetering } from '../billing/metering.ts';
import { makeAudit, type AuditDeps } from '../audit/audit.ts';
import { makeWebhookDelivery, type DeliverDeps } from '../webhooks/deliver.ts';
import { makeSendWebhook, type SendWebhook } from '../webhooks/send-webhook.ts';
import { makeVolumePages } from '../../store/tables/volume-pages.ts';
import { makeAccountVersions } from '../events/account-versions.ts';
import { makeAccess, type AccessDeps } from '../access/access.ts';
import { makeShares, type ShareDeps } from '../access/shares.ts';
import { makeIdleDetector } from '../auto-stop/idle-detector.ts';
import { makeTraffic } from '../auto-stop/traffic.ts';
import { makeStopAutomatically } from '../instances/actions.ts';
import type { ReadInstancesDeps } from '../instances/instances.ts';
import { makeDiskHolders } from '../volumes/disk-holders.ts';
import { makeHeldDisks } from '../volumes/held-disks.ts';
import { makeRevocations } from '../routing/revocations.ts';
import { makeRoutes, makeRouteTable } from '../routing/gateway-routes.ts';
import { makeHealthChecks } from '../instances/health.ts';
import { makeCheckImage } from '../images/check-image.ts';
import { makeImagePulls } from '../images/image-pulls.ts';
import type { TaskDeps } from './deps.ts';
import { makeSampler } from '../inside/metrics/sampler.ts';
import { makeCatalogCache } from './catalog-cache.ts';
import { makeIdempotent } from './idempotent.ts';
import type { RegionEngineDeps } from '../catalog/region-engine.ts';
import type { ProbeDeps } from '../capacity/probe.ts';
import type { PortDeps } from '../routing/ports.ts';
import { makeRegistries } from '../images/registries.ts';
import { DEFAULT_SPOT_GRACE_MS } from '../../domain/spot.ts';
import { makeAllocator } from '../volumes/allocate.ts';
import { makeFreeSpaceMonitor } from '../volumes/free-space.ts';
import { makeOutageLog } from './outage-log.ts';
import { makeVariables } from '../instances/environment.ts';
import { makeNotebookTokens } from './notebook-tokens.ts';
import { makeSeal } from './seal.ts';
import { makeSshHostKeys } from '../routing/ssh-host-key.ts';
import type { TerminalHost } from '../inside/terminals/terminal-host.ts';
import { makeChanges } from './changes.ts';
import { makeScheduler } from './scheduler.ts';

export interface ControlDeps
  extends
    Pick<TaskDeps, 'store' | 'regions' | 'log' | 'time'>,
    Pick<ReadInstancesDeps, 'openUrl'>,
    Pick<PortDeps, 'portUrls'>,
    Pick<ShareDeps, 'shareUrl'>,
    Pick<DeliverDeps, 'webhookGiveUpMs'>,
    Pick<AuditDeps, 'auditHeadFile' | 'auditRetentionMs'>,
    Pick<
      AccessDeps,
      'issuer' | 'audience' | 'argon2id' | 'firstCredit' | 'deletionGraceMs' | 'registration' | 'passwordUrl'
    >,
    Pick<ProbeDeps, 'onEngineAnswers'>,
    Pick<RegionEngineDeps, 'openRegion'> {
  /** In [0, 1); draws node ports. */
  random: () => number;
  randomUuid: () => string;
  randomBytes: (size: number) => Uint8Array;
  /** 32 bytes; seals stored secrets, such as the signing key and registry passwords. */
  secretsKey: Uint8Array;
  /** Quota of accounts without one; default: the built-in one. */
  requestsPerSecond?: number;
  /** Concurrent container starts; about four per core of the engine. */
  engineWidth: number;
  dataSpace: () => Promise<Space>;
  /** Space for the database on a full disk; default: none. */
  reserve?: SpaceReserve;
  /** Default: held until the end. */
  hold?: Hold;
  diskReserveShare?: ReserveShare;
  limits?: Partial<Limits>;
  stopPolicyRules?: StopPolicyRules;
  idleLimits?: Partial<IdleLimits>;
  orphans?: OrphanPolicy;
  /** Whether accounts may use registries at loopback addresses; default no. */
  localRegistries?: boolean;
  /** Retention of events and finished operations; default 30 days. */
  eventRetentionMs?: number;
  /** Whether webhooks may reach private addresses, and use http; default no. */
  anyWebhookAddress?: boolean;
  sendWebhook?: SendWebhook;
  /** From the reclaim of a spot instance to its stop; default 2 minutes. */
  spotGraceMs?: number;
  /** Terminals of a separate gateway process; default: local ones. */
  terminals?: TerminalHost;
  /** Signing secret of Stripe's webhook; absent: payments are off. */
  stripeSecret?: string | undefined;
  /** Whether usage is charged; default yes. */
  isBilled?: boolean;
  moneyRules?: Partial<MoneyRules>;
  /** True if no other process shares the store: existing leases are stale. */
  alone: boolean;
}

export type Foundation = ReturnType<typeof makeFoundation>;

/** Makes all parts in one object: use cases and tasks get the object, and type what they use. */
export function makeFoundation(given: ControlDeps) {
  const { secretsKey, stopPolicyRules: givenRules, ...options } = given;
  const { randomBytes, anyWebhookAddress = false } = options;
  const limits = { ...defaultLimits, ...given.limits };
  const seal = makeSeal({ key: secretsKey, randomBytes });
  const shutdown = new AbortController();
  const changes = makeChanges();
  const stopPolicyRules = givenRules ?? { capRunMs: null, idle: null };
  const reserve = given.reserve ?? noReserve;
  const base = {
    ...options,
    reserve,
    hold: given.hold ?? permanentHold,
    log: makeOutageLog(options.log, { regions: options.regions, reserve }),
    limits,
    diskReserveShare: given.diskReserveShare ?? null,
    idleLimits: { ...defaultIdleLimits, ...given.idleLimits },
    orphans: given.orphans ?? defaultOrphanPolicy,
    localRegistries: given.localRegistries ?? false,
    anyWebhookAddress,
    spotGraceMs: given.spotGraceMs ?? DEFAULT_SPOT_GRACE_MS,
    sendWebhook: given.sendWebhook ?? makeSendWebhook({ time: given.time, anyAddress: anyWebhookAddress }),
    stopPolicyRules,
    firstStopPolicy: initialStopPolicy(stopPolicyRules),
    changes,
    stopping: shutdown.signal,
    ...makeCatalogCache(given),
    idempotent: makeIdempotent(secretsKey),
    seal,
    quoteSigner: makeQuoteSigner(secretsKey),
    notebookTokens: makeNotebookTokens({ seal, randomBytes }),
    metering: makeMetering({ ...given, isBilled: given.isBilled ?? true }),
    variables: makeVariables({ seal, regions: given.regions }),
    traffic: makeTraffic(given.time.elapsed),
  };
  const routes = makeRoutes(base);
  const routeTable = makeRouteTable(base);
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
  const stopAutomatically = makeStopAutomatically(base);
  const allocator = makeAllocator(base);
  const registries = makeRegistries(base);
  return {
    ...base,
    shutdown,
    audit: makeAudit({ ...given, isFull: reserve.isFull }),
    webhookDelivery: makeWebhookDelivery(base),
    routes,
    routeTable,
    revocations,
    access: makeAccess({
      ...base,
      onSshKeysChanged: async (tx, ownerId) => void (await markFilesStale(tx, { ownerId }, given.time.now())),
    }),
    shares: makeShares(base),
    stopAutomatically,
    idleDetector: makeIdleDetector({ ...base, stopAutomatically }),
    imagePulls: makeImagePulls(),
    registries,
    checkImage: makeCheckImage({ ...base, credentialsFor: registries.credentialsFor }),
    sshHostKey: makeSshHostKeys(secretsKey),
    accountVersions: makeAccountVersions(base),
    allocator,
    freeSpace: makeFreeSpaceMonitor({ ...base, allocator }),
    volumePages: makeVolumePages(),
    sampler: makeSampler(base),
    diskHolders: makeDiskHolders(),
    heldDisks: makeHeldDisks(base),
    health: makeHealthChecks(base),
    scheduler: makeScheduler(base),
  };
}
