/**
 * # The tables
 *
 * One schema for SQLite and PostgreSQL: text, integers (epoch milliseconds, micro-dollars and counts fit 53 bits), and JSON kept as
 * text. Booleans are 0 or 1. A column that a query filters or guards by is a column; what is only carried is JSON.
 */
import type { Generated } from 'kysely';

export type Flag = 0 | 1;

/** Facts of the installation itself, by name: its id, ids drawn once, the signing key's id, what the texts were last written with. */
export interface SettingTable {
  name: string;
  value: string;
}

/** A JWT signing key, Ed25519. `retiredAtMs` null is the one that signs; retired ones still verify until their tokens expired. */
export interface SigningKeyTable {
  kid: string;
  privateJwk: string;
  publicJwk: string;
  createdAtMs: number;
  retiredAtMs: number | null;
}

/** A person or a program that owns things, with the counters of what it owns: one row to read for a list's total and version. */
export interface AccountTable {
  id: string;
  username: string;
  email: string;
  passwordHash: string;
  /** JSON array of role names. */
  roles: string;
  createdAtMs: number;
  disabled: Flag;
  /** Moved by every change of anything the account can list; reply caches are keyed by it. */
  version: Generated<number>;
  /** Number of the account's latest event: events are numbered 1, 2, 3 … for each account, without gaps. */
  eventSeq: Generated<number>;
  /** Instances that a list shows, and volumes that a list shows. */
  instanceCount: Generated<number>;
  volumeCount: Generated<number>;
  balanceMicros: Generated<number>;
  voucherMicros: Generated<number>;
  creditMicros: Generated<number>;
}

/** One login. Its id is the token's `jti`. */
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

/** Also counts what of the region's capacity is promised; totals come from the engine's probe. */
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
  /** 0 when the operator withdrew it: not offered any more, still runs. */
  inCatalog: Flag;
  /** The account whose own it is; null for one of the operator's. */
  ownerId: Generated<string | null>;
  /** `Saving` from an instance, `Ready`, `Failed`, `Deleting`. */
  state: Generated<string>;
  stateText: Generated<string>;
  fromInstanceId: Generated<string | null>;
  /** Where it lies, when it was saved from an instance; null for one that a registry has. */
  regionId: Generated<string | null>;
  sizeBytes: Generated<number>;
  attempts: Generated<number>;
  generation: Generated<number>;
  /** JSON `Operation`: the present one of an image that is saved, or was and is deleted; null for the others. */
  operation: Generated<string | null>;
  dueAtMs: Generated<number | null>;
  leaseOwner: Generated<string | null>;
  leaseToken: Generated<string | null>;
  leaseUntilMs: Generated<number | null>;
}

/** What a registry asks for, one for each server of an account. */
export interface RegistryCredentialTable {
  id: string;
  accountId: string;
  /** Host and port as they stand in image names; `docker.io` for the names without one. */
  server: string;
  username: string;
  secret: string;
  createdAtMs: number;
}

/** Operations that another wish has followed, or whose subject is gone: the present one is in the row of its subject. */
export interface OperationTable {
  /** `<subjectId>.<generation>`. */
  id: string;
  accountId: string;
  subjectId: string;
  generation: number;
  kind: string;
  /** When it became history. */
  archivedAtMs: number;
  /** JSON `Operation`. */
  operation: string;
}

/** An object of ours on an engine that no intent explains. */
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
  /** For how long sweeps have seen it one after the other; 0 after the first. */
  watchedMs: number;
  /** What is to be done with it: `policy`, `stop`, `delete`. */
  handling: string;
  /** What became of the last try. */
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
  /** JSON object: charge mode → micro-dollars of one unit. */
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
  /** JSON `NodePort[]`, 0 until one is allotted. The table `nodePort` beside it is what makes them unique. */
  nodePorts: string;
  desired: string;
  generation: number;
  mustHalt: Flag;
  everEnsured: Flag;
  /** 1 while control files of the running instance are out of date. */
  filesStale: Flag;
  attempts: number;
  requestedAtMs: number;
  initExit: number | null;
  /** JSON `Observed`; `status` is beside it as a column because queries ask for it. */
  observed: string;
  status: string;
  /** 1 while its capacity is counted in the region. */
  holdsCapacity: Flag;
  /** In line for capacity since then. */
  waitsSinceMs: number | null;
  waitsUntilMs: number | null;
  /** JSON `Ends`. */
  stopPolicy: string;
  /** JSON object: port → `PortAccess` that its owner has set. */
  portAccess: string;
  /** When the clock alone stops it: what of `ends` comes first, while it is wished to run. */
  stopDueAtMs: number | null;
  /** After how long idleness stops it: of one that runs and is watched, null for all others. */
  idleAfterMs: number | null;
  /** JSON `Archive`; null when there is none. */
  archive: string | null;
  /** JSON array of refs: root disks that were asked for and that no archive names. */
  unfinished: string;
  /** JSON `DiskUsage`: what its disks held when they were last measured. */
  diskUsage: string;
  /** JSON `Operation`: the present one. */
  operation: string;
  /** Secret between gateway and notebook. */
  notebookToken: string;
  /** Text of the public object, made in the transaction that changes any column above. */
  publicText: string;
  /** 1 while lists show it: until an hour after release. */
  listed: Flag;
  releasedAtMs: number | null;
  /** When a pass should look at it next; null while nothing is to be done. */
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
}

/** A node port is one instance's at a time: the primary key is what makes two of the same impossible. */
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
  /** Unique for an owner among volumes that are not Terminating: see `liveName`. */
  name: string;
  /** `<ownerId>/<name>` while the name is taken, null once it is free again; unique. */
  liveName: string | null;
  regionId: string;
  type: string;
  sizeGB: number;
  usageBytes: number;
  /** JSON `DiskId` of what it is made from; null for an empty one. */
  source: string | null;
  status: string;
  generation: number;
  /** JSON `Operation`: the present one. */
  operation: string;
  publicText: string;
  /** 1 while lists show it. */
  listed: Flag;
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
}

/** A place that disks of a region lie in, and what of it is promised. */
export interface PoolTable {
  /** `<regionId>/<name>`. */
  id: string;
  regionId: string;
  name: string;
  limitGB: number;
  usedGB: Generated<number>;
  /** 1 while administrators know that it wants room. */
  warned: Generated<Flag>;
}

/** A disk, from when it is wished until nothing of it is left: where it lies, and what of its pool it takes. */
export interface DiskTable {
  /** `<kind>/<subjectId>`. */
  id: string;
  kind: string;
  /** Of a shared folder it is `<ownerId>/<regionId>`. */
  subjectId: string;
  regionId: string;
  pool: string;
  ownerId: string;
  sizeGB: number;
  provisioned: Generated<Flag>;
  usageBytes: Generated<number>;
  warnedPercent: Generated<number>;
}

/** What a volume held at one moment. */
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
  /** JSON `Operation`: the present one. */
  operation: string;
  publicText: string;
  /** 1 while lists show it. */
  listed: Flag;
  dueAtMs: number | null;
  leaseOwner: string | null;
  leaseToken: string | null;
  leaseUntilMs: number | null;
}

/** The first answer of a create or action that came with an `Idempotency-Key`; written in the transaction of the deed. */
export interface IdempotencyTable {
  accountId: string;
  key: string;
  route: string;
  /** SHA-256 of the validated body. */
  bodyHash: string;
  answer: string;
  createdAtMs: number;
}

/** Append-only. `seq` counts an account's events without gaps; `id` orders all of them. */
export interface EventTable {
  id: Generated<number>;
  accountId: string;
  seq: number;
  atMs: number;
  /** `instance.launched`, `instance.status`, `volume.created` … */
  kind: string;
  subjectId: string;
  /** JSON object. */
  data: string;
}

/** A one-time key that hands a browser from the API over to the gateway, and the gateway session that comes of it. */
export interface GatewayGrantTable {
  /** SHA-256 of the secret, hex. */
  hash: string;
  kind: 'handover' | 'session';
  accountId: string;
  instanceId: string;
  /** Login it came from; it dies with it. Null when it came from an API key. */
  sessionId: string | null;
  expiresAtMs: number;
  /** What its owner calls it by, who is never told the secret again. */
  id: string;
  openedAtMs: number;
}

/** A link that opens one port of an instance to whoever has it. */
export interface PortShareTable {
  id: string;
  /** SHA-256 of its token, hex. */
  hash: string;
  instanceId: string;
  accountId: string;
  port: number;
  /** '' when it was given none. */
  name: string;
  createdAtMs: number;
  expiresAtMs: number;
}

/** The samples of one minute, of all instances: only read when a server starts. Packed by `control/inside/metrics`. */
export interface MetricMinuteTable {
  atMs: number;
  /** They stand in several rows, of some hundred instances each. */
  part: number;
  body: Uint8Array;
}

/** The minutes of one hour of an instance. */
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
