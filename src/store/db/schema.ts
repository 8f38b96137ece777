/**
 * # The tables
 *
 * One schema for SQLite and PostgreSQL: text, integers (epoch milliseconds, micro-dollars and
 * counts fit 53 bits), and JSON as text. Booleans are 0 or 1. Values used in a filter or guard
 * have a column; all others are in JSON.
 */
import type { Generated } from 'kysely';

export type Flag = 0 | 1;

/** Facts of the installation, by name: its id, ids drawn once, the id of the signing key. */
export interface SettingTable {
  name: string;
  value: string;
}

/**
 * JWT signing key, Ed25519. The active key has `retiredAtMs` null; retired keys verify until the
 * last token expires.
 */
export interface SigningKeyTable {
  kid: string;
  privateJwk: string;
  publicJwk: string;
  createdAtMs: number;
  retiredAtMs: number | null;
}

/** A person or a program, with counters: a list's total and version come from one row. */
export interface AccountTable {
  id: string;
  username: string;
  email: string;
  passwordHash: string;
  /** JSON array of role names. */
  roles: string;
  createdAtMs: number;
  disabled: Flag;
  /** Incremented by every change of a listed resource; keys the reply caches. */
  version: Generated<number>;
  /** Number of the latest event: 1, 2, 3 … per account, without gaps. */
  eventSeq: Generated<number>;
  /** Listed instances and listed volumes. */
  instanceCount: Generated<number>;
  volumeCount: Generated<number>;
  balanceMicros: Generated<number>;
  voucherMicros: Generated<number>;
  creditMicros: Generated<number>;
}

/** A login. Its id is the token's `jti`. */
export interface SessionTable {
  id: string;
  accountId: string;
  createdAtMs: number;
  expiresAtMs: number;
  revokedAtMs: number | null;
}

export interface ApiKeyTable {
  id: string;
  accountId: string;
  name: string;
  /** SHA-256 of the full key, hex. */
  hash: string;
  lastFour: string;
  createdAtMs: number;
}

export interface SshKeyTable {
  id: string;
  accountId: string;
  name: string;
  publicKey: string;
  fingerprint: string;
  createdAtMs: number;
}

/** Capacity: totals from the engine's probe, and how much is reserved. */
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
  gpusTotal: number;
  cpuMilliUsed: Generated<number>;
  memoryMiBUsed: Generated<number>;
  gpusUsed: Generated<number>;
  nodePortsTotal: number;
  nodePortsUsed: Generated<number>;
}

export interface ImageTable {
  id: string;
  name: string;
  ref: string;
  architecture: string;
  isPublic: Flag;
  /** JSON array of strings. */
  tags: string;
  type: string;
  createdAtMs: number;
  /** 0 after withdrawal by the operator: no new launches, existing instances still run. */
  inCatalog: Flag;
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
  /** JSON `Operation`, current or last; null without one. */
  operation: Generated<string | null>;
  dueAtMs: Generated<number | null>;
  leaseOwner: Generated<string | null>;
  leaseToken: Generated<string | null>;
  leaseUntilMs: Generated<number | null>;
}

/** Credential for a registry, one per server and account. */
export interface RegistryCredentialTable {
  id: string;
  accountId: string;
  /** Host and port as in image names; `docker.io` for names without a host. */
  server: string;
  username: string;
  secret: string;
  createdAtMs: number;
}

/** Past operations: superseded, or of a deleted subject. The subject's row has the current one. */
export interface OperationTable {
  /** `<subjectId>.<generation>`. */
  id: string;
  accountId: string;
  subjectId: string;
  generation: number;
  kind: string;
  /** Time of supersession or deletion. */
  archivedAtMs: number;
  operation: string;
}

/** Object of ours on an engine without a row that explains it. */
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
  /** Outcome of the last try. */
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
  /** JSON object: charge mode → micro-dollars per unit. */
  prices: string;
  inCatalog: Flag;
  /** Position in the catalog. */
  position: number;
}

export interface InstanceTable {
  id: string;
  ownerId: string;
  ownerName: string;
  regionId: string;
  createdAtMs: number;
  /** JSON `InstanceSpec`. */
  spec: string;
  priceMicros: number;
  /** JSON `NodePort[]`, 0 until allotted. The table `nodePort` makes allotments unique. */
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
  /** JSON `Observed`; `status` is also a column for queries. */
  observed: string;
  status: string;
  /** 1 while counted in the region's capacity. */
  holdsCapacity: Flag;
  /** Start of the wait in the capacity queue. */
  waitsSinceMs: number | null;
  waitsUntilMs: number | null;
  /** JSON `StopPolicy`. */
  stopPolicy: string;
  /** JSON object: port → `PortAccess`, set by the owner. */
  portAccess: string;
  /**
   * When the clock stops the instance: the earliest limit of `stopPolicy`, while desired is
   * running.
   */
  stopDueAtMs: number | null;
  /** Idle limit; null unless Running, desired running, and watched. */
  idleAfterMs: number | null;
  /** JSON `Archive`. */
  archive: string | null;
  /** JSON array of refs: root disks requested and not named by an archive. */
  unfinished: string;
  /** JSON `DiskUsage`, as last measured. */
  diskUsage: string;
  /** JSON `Operation`, the current one. */
  operation: string;
  /** Secret between gateway and notebook. */
  notebookToken: string;
  /** JSON of the public object, written with every change of the columns above. */
  publicText: string;
  /** 1 until an hour after release. */
  listed: Flag;
  releasedAtMs: number | null;
  /** Time of the next reconcile; null at rest. */
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
}

/** Allotted node ports: the primary key prevents two of the same. */
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

export interface VolumeTable {
  id: string;
  ownerId: string;
  ownerName: string;
  createdAtMs: number;
  /** Unique per owner among volumes not Terminating: see `liveName`. */
  name: string;
  /** `<ownerId>/<name>`, unique; null once the name is free again. */
  liveName: string | null;
  regionId: string;
  type: string;
  sizeGB: number;
  usageBytes: number;
  /** JSON `DiskId` of the copied disk; null for an empty volume. */
  source: string | null;
  status: string;
  generation: number;
  /** JSON `Operation`, the current one. */
  operation: string;
  publicText: string;
  listed: Flag;
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
}

/** Storage of a region for disks, and how much of its space is reserved. */
export interface PoolTable {
  /** `<regionId>/<name>`. */
  id: string;
  regionId: string;
  name: string;
  limitGB: number;
  usedGB: Generated<number>;
  /** 1 after administrators were warned of low space. */
  warned: Generated<Flag>;
}

/** A disk, from its request until nothing of it is left. */
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
  provisioned: Generated<Flag>;
  usageBytes: Generated<number>;
  warnedPercent: Generated<number>;
}

/** Content of a volume at one moment. */
export interface SnapshotTable {
  id: string;
  ownerId: string;
  ownerName: string;
  createdAtMs: number;
  name: string;
  /** As of a volume. */
  liveName: string | null;
  regionId: string;
  volumeId: string;
  volumeName: string;
  volumeType: string;
  sizeGB: number;
  consistency: string;
  status: string;
  generation: number;
  /** JSON `Operation`, the current one. */
  operation: string;
  publicText: string;
  listed: Flag;
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
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
  /** `instance.launched`, `instance.status`, `volume.created` … */
  kind: string;
  subjectId: string;
  data: string;
}

/**
 * One-time handover of a browser from the API to the gateway, or the gateway session made from
 * one.
 */
export interface GatewayGrantTable {
  /** SHA-256 of the secret, hex. */
  hash: string;
  kind: 'handover' | 'session';
  accountId: string;
  instanceId: string;
  /** Login of origin, whose end deletes the grant. Null for an API key. */
  sessionId: string | null;
  expiresAtMs: number;
  /** Public name: the owner never sees the secret again. */
  id: string;
  openedAtMs: number;
}

/** Link that opens one port of an instance to anyone who has it. */
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

/**
 * Samples of one minute, of all instances; read only at start. Packed by `control/inside/metrics`.
 */
export interface MetricMinuteTable {
  atMs: number;
  /** Each row holds some hundred instances. */
  part: number;
  body: Uint8Array;
}

/** Minutes of one hour of an instance. */
export interface MetricHourTable {
  instanceId: string;
  atMs: number;
  body: Uint8Array;
}

export interface Schema {
  metricMinute: MetricMinuteTable;
  metricHour: MetricHourTable;
  setting: SettingTable;
  signingKey: SigningKeyTable;
  account: AccountTable;
  session: SessionTable;
  apiKey: ApiKeyTable;
  sshKey: SshKeyTable;
  region: RegionTable;
  image: ImageTable;
  instanceType: InstanceTypeTable;
  instance: InstanceTable;
  nodePort: NodePortTable;
  mount: MountTable;
  volume: VolumeTable;
  snapshot: SnapshotTable;
  pool: PoolTable;
  disk: DiskTable;
  idempotency: IdempotencyTable;
  event: EventTable;
  registryCredential: RegistryCredentialTable;
  operation: OperationTable;
  orphan: OrphanTable;
  gatewayGrant: GatewayGrantTable;
  portShare: PortShareTable;
}
