/**
 * # The tables
 *
 * One schema for SQLite and PostgreSQL: text, integers (epoch milliseconds, micro-dollars and
 * counts fit 53 bits), and JSON as text (shapes: `tables/json-schemas.ts`). Booleans are 0 or 1.
 * Values used in a filter or guard have a column; all others are in JSON. `operation` is the
 * current or last one.
 */
import type { Generated } from 'kysely';
import type { AccountSchema } from './account-schema.ts';
import type { AuditSchema } from './audit-schema.ts';
import type { BillingSchema } from './billing-schema.ts';
import type { Flag } from './columns.ts';
import type { WebhookSchema } from './webhook-schema.ts';

interface LeaseColumns {
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
}

/** An act of a subject, by `tables/due-acts.ts`. */
export interface DueActTable extends LeaseColumns {
  /** `<kind>/<subjectId>`. */
  id: string;
  kind: string;
  subjectId: string;
  ownerId: string;
  /** Failures in a row, and the last error. */
  attempts: Generated<number>;
  error: string | null;
  /** Moves when the act is set while it runs. */
  generation: Generated<number>;
}

/** A state of `tables/watches.ts`. */
export interface WatchTable {
  kind: string;
  subjectId: string;
  regionId: string;
  sinceMs: number;
  /** Run and policy of the instance: a row of others is void. */
  run: string;
  usedAtMs: number | null;
  willStopAtMs: number | null;
}

export interface SettingTable {
  name: string;
  value: string;
}

export interface RegionTable {
  id: string;
  name: string;
  value: string;
  location: string;
  domain: string;
  sshAddress: string;
  engine: string;
  cpuMilliTotal: number;
  memoryMiBTotal: number;
  /** `GpuCounts`, like `gpusUsed`. */
  gpusTotal: Generated<string>;
  /** `Supply['reservePerGpu']`; null: launches without GPUs may take all. */
  reservePerGpu: Generated<string | null>;
  cpuMilliUsed: Generated<number>;
  memoryMiBUsed: Generated<number>;
  gpusUsed: Generated<string>;
  nodePortsTotal: number;
  nodePortsUsed: Generated<number>;
  /** `Drain`; null without one. */
  drain: Generated<string | null>;
  /** Names of before, oldest first: `FormerName[]`. */
  formerNames: Generated<string>;
  /** Version of name, value, location, own domain and off-peak windows. */
  version: Generated<number>;
  /** Set by an administrator; null: `domain`, which follows the settings. */
  ownDomain: Generated<string | null>;
  offPeak: Generated<string | null>;
  /** Storage kind → micro-dollars per GB and 30 days; null: the default. */
  storagePrices: Generated<string | null>;
  /** `RegionSettings`; null: a region of the settings of the server. */
  settings: Generated<string | null>;
  /** Sealed; null without credentials. */
  credentials: Generated<string | null>;
  /** 0: retired. */
  inCatalog: Generated<Flag>;
}

/** `holderId`: a region, for accounts without a policy of their own, or an account. */
export interface EgressTable {
  holderId: string;
  policy: string;
}

export interface ImageTable {
  id: string;
  name: string;
  ref: string;
  architecture: string;
  isPublic: Flag;
  tags: string;
  type: string;
  createdAtMs: number;
  /** 0 once retired: no new launches, existing instances still run. */
  inCatalog: Flag;
  version: Generated<number>;
  /** Null for an image of the operator. */
  ownerId: Generated<string | null>;
  /** `Saving`, `Ready`, `Failed` or `Deleting`. */
  state: Generated<string>;
  stateText: Generated<string>;
  fromInstanceId: Generated<string | null>;
  /** Region of a saved image; null for an image in a registry. */
  regionId: Generated<string | null>;
  sizeBytes: Generated<number>;
  attempts: Generated<number>;
  generation: Generated<number>;
  operation: Generated<string | null>;
  dueAtMs: Generated<number | null>;
  leaseOwner: Generated<string | null>;
  leaseToken: Generated<string | null>;
  leaseUntilMs: Generated<number | null>;
  /** JSON of `KnownImage`; null before the first answer of a region or registry. */
  facts: Generated<string | null>;
}

export interface OperationTable {
  /** `<subjectId>.<generation>`. */
  id: string;
  accountId: string;
  subjectId: string;
  generation: number;
  kind: string;
  archivedAtMs: number;
  operation: string;
}

export interface OrphanTable {
  /** `<regionId>/<kind>/<engineName>`. */
  id: string;
  regionId: string;
  kind: string;
  engineName: string;
  subjectId: string;
  ownerId: string;
  imageRef: string;
  generation: number;
  running: Flag;
  createdAtMs: number;
  firstSeenAtMs: number;
  lastSeenAtMs: number;
  /** Time over which successive sweeps observed the orphan; 0 after the first. */
  watchedMs: number;
  /** `policy`, `stop` or `delete`. */
  handling: string;
  note: string;
}

export interface InstanceTypeTable {
  id: string;
  regionId: string;
  name: string;
  isSpot: Flag;
  cpuCores: number;
  cpuType: string;
  memoryGB: number;
  gpuCount: number;
  gpuName: string;
  rootDiskGB: number;
  dataDiskGB: number;
  runtime: string | null;
  /** `TypePlacement`. */
  placement: string | null;
  /** Charge mode → micro-dollars per unit. */
  prices: string;
  inCatalog: Flag;
  position: number;
  version: Generated<number>;
}

export interface InstanceTable extends LeaseColumns {
  id: string;
  ownerId: string;
  ownerName: string;
  regionId: string;
  createdAtMs: number;
  spec: string;
  priceMicros: number;
  /** `NodePort[]`, 0 until allotted. */
  nodePorts: string;
  desired: string;
  generation: number;
  mustHalt: Flag;
  everEnsured: Flag;
  /** 1 while the running instance has outdated control files. */
  filesStale: Flag;
  attempts: number;
  requestedAtMs: number;
  initExit: number | null;
  observed: string;
  status: string;
  holdsCapacity: Flag;
  waitsSinceMs: number | null;
  waitsUntilMs: number | null;
  notBeforeMs: number | null;
  windowEndsAtMs: number | null;
  reclaimAtMs: number | null;
  /** The region of a spot instance until its release. */
  spotRegionId: string | null;
  stopPolicy: string;
  portAccess: string;
  /** `WakePolicy`; `{}`: none. */
  wake: Generated<string>;
  /** Idle limit; null unless Running, desired running, and watched. */
  idleAfterMs: number | null;
  archive: string | null;
  rootDisk: Generated<string>;
  /** Changes of name, pending changes and stop policy, which keep the generation. */
  revision: Generated<number>;
  pending: string | null;
  /** `ContainerShape`, until that container is removed. */
  oldContainer: string | null;
  /** Refs of root disks requested and not named by an archive. */
  unfinished: string;
  diskUsage: string;
  operation: string;
  notebookToken: string;
  /** JSON of the public object, written with every change of the columns above. */
  publicText: string;
  /** 1 until an hour after release. */
  listed: Flag;
  releasedAtMs: number | null;
  /** JSON of the labels, beside the public text; null without. */
  labels: Generated<string | null>;
  /** `searchForm` of the name. */
  searchName: Generated<string>;
  typeId: Generated<string>;
  imageId: Generated<string>;
}

export interface LabelTable {
  subjectId: string;
  key: string;
  value: string;
  ownerId: string;
}

export interface NodePortTable {
  regionId: string;
  nodePort: number;
  instanceId: string;
  port: number;
}

export interface MountTable {
  instanceId: string;
  volumeId: string;
  mountPath: string;
}

export interface VolumeTable extends LeaseColumns {
  id: string;
  ownerId: string;
  ownerName: string;
  createdAtMs: number;
  name: string;
  /** `<ownerId>/<name>`, unique; null once the name is free again. */
  liveName: string | null;
  regionId: string;
  type: string;
  sizeGB: number;
  usageBytes: number;
  /** `DiskId` of the copied disk; null for an empty volume. */
  source: string | null;
  status: string;
  generation: number;
  operation: string;
  publicText: string;
  listed: Flag;
  labels: Generated<string | null>;
  searchName: Generated<string>;
}

export interface PoolTable {
  id: string;
  regionId: string;
  name: string;
  limitGB: number;
  /** Sum of `promisedGB` of the disks, as `bestEffortGB` is of theirs. */
  usedGB: Generated<number>;
  bestEffortGB: Generated<number>;
  warned: Generated<Flag>;
}

export interface DiskTable {
  /** `<kind>/<subjectId>`. */
  id: string;
  kind: string;
  /** `<ownerId>/<regionId>` for a shared folder. */
  subjectId: string;
  regionId: string;
  pool: string;
  ownerId: string;
  sizeGB: number;
  promisedGB: Generated<number>;
  /** The row of a data disk also counts its instance's root disk. */
  bestEffortGB: Generated<number>;
  provisioned: Generated<Flag>;
  usageBytes: Generated<number>;
  warnedPercent: Generated<number>;
}

export interface SnapshotTable extends LeaseColumns {
  id: string;
  ownerId: string;
  ownerName: string;
  createdAtMs: number;
  name: string;
  liveName: string | null;
  regionId: string;
  volumeId: string;
  volumeName: string;
  volumeType: string;
  sizeGB: number;
  consistency: string;
  status: string;
  generation: number;
  operation: string;
  publicText: string;
  listed: Flag;
}

/** First answer of a request with an `Idempotency-Key`, written in the request's transaction. */
export interface IdempotencyTable {
  accountId: string;
  key: string;
  route: string;
  /** Keyed hash of the validated body. */
  bodyHash: string;
  answer: string;
  createdAtMs: number;
}

/** Append-only. `seq` numbers an account's events without gaps; `id` orders all events. */
export interface EventTable {
  id: Generated<number>;
  accountId: string;
  seq: number;
  atMs: number;
  kind: string;
  subjectId: string;
  data: string;
}

export interface PortShareTable {
  id: string;
  /** SHA-256 of the token, hex. */
  hash: string;
  instanceId: string;
  accountId: string;
  port: number;
  name: string;
  createdAtMs: number;
  expiresAtMs: number;
}

/** Samples of a minute, read only at start; packed by `control/compute/inside/metrics`. */
export interface MetricMinuteTable {
  atMs: number;
  /** Each row holds some hundred instances. */
  part: number;
  body: Uint8Array;
}

export interface MetricHourTable {
  instanceId: string;
  atMs: number;
  body: Uint8Array;
}

/** `GpuTime` of an account in an hour. */
export interface GpuUseTable {
  accountId: string;
  atMs: number;
  heldMs: number;
  measuredMs: number;
  busyMs: number;
}

export interface RegionUseTable {
  regionId: string;
  /** Start of the five minutes. */
  atMs: number;
  /** Name of `RegionUse`. */
  resource: string;
  total: number;
  promised: number;
  used: number | null;
}

export interface QuarantineTable {
  /** `<regionId>/<cardId>/<reason>`. */
  id: string;
  regionId: string;
  cardId: string;
  reason: string;
  evidence: string;
  sinceMs: number;
  isReturned: Generated<Flag>;
}

export interface Schema extends AccountSchema, AuditSchema, BillingSchema, WebhookSchema {
  metricMinute: MetricMinuteTable;
  metricHour: MetricHourTable;
  gpuUse: GpuUseTable;
  setting: SettingTable;
  dueAct: DueActTable;
  watch: WatchTable;
  region: RegionTable;
  image: ImageTable;
  instanceType: InstanceTypeTable;
  instance: InstanceTable;
  nodePort: NodePortTable;
  mount: MountTable;
  volume: VolumeTable;
  label: LabelTable;
  snapshot: SnapshotTable;
  pool: PoolTable;
  disk: DiskTable;
  idempotency: IdempotencyTable;
  event: EventTable;
  operation: OperationTable;
  orphan: OrphanTable;
  portShare: PortShareTable;
  egress: EgressTable;
  quarantine: QuarantineTable;
  regionUse: RegionUseTable;
}
