/**
 * What the edge may ask of control: every use-case, by subject. Each validates against the state, authorises, and in ONE
 * transaction writes the wish, the event and the idempotency record, answers, and wakes the loop; none calls an engine.
 * Every refusal is a `Refusal`; anything else thrown is a fault of ours (500).
 */
import type { ChargeMode, Region } from '../domain/catalog.ts';
import type { ShownDisk } from '../domain/disk-usage.ts';
import type { DiskSizes } from '../domain/expand-disk.ts';
import type { Ends, EndsWish } from '../domain/stop-policy.ts';
import type { Signal } from '../domain/idle.ts';
import type { Orphan } from '../domain/orphan.ts';
import type { PublicOperation, PublicStage } from '../domain/public-operation.ts';
import type { Source, VolumeType } from '../domain/volume.ts';
import type { StorageCapabilities } from '../storage/contract.ts';
import type { FolderPage } from '../storage/files.ts';
import type { Logs } from './inside/logs/logs.ts';
import type { Commands } from './inside/commands.ts';
import type { Metrics } from './inside/metrics/metrics.ts';
import type { UseTerminals } from './inside/terminals/use.ts';
import type { Forwarding, GatewaySessions, Ports, RouteTable } from './routing/gateway-types.ts';

export type { LogPage, Logs, LogWish } from './inside/logs/logs.ts';
export type { FollowedLog } from './inside/logs/follow.ts';
export type { Commands } from './inside/commands.ts';
export type { UseTerminals } from './inside/terminals/use.ts';
export type { OpenExec } from '../engines/contract.ts';
export type { AttachedTerminal, Terminals, Told } from './inside/terminals/terminals.ts';
export type {
  Forwarding,
  GatewayRoute,
  RouteTable,
  SshDrivers,
  SshIdentity,
  ToldRoutes,
  TrafficKind,
  WhoseCredential,
} from './routing/gateway-types.ts';

/** Who asks. Comes from `access.authenticate` and is handed to every use-case. */
export interface Caller {
  accountId: string;
  username: string;
  email: string;
  roles: readonly string[];
  /** Login the token came from; null for an API key. */
  sessionId: string | null;
  /** The API key's id; absent for a token. What is opened with a key ends with it. */
  apiKeyId?: string;
}

export type Credential = { kind: 'token'; token: string } | { kind: 'apiKey'; key: string };

/** An `Idempotency-Key` with the route and the hash of the validated body it stands for. */
export interface Idempotency {
  key: string;
  route: string;
  bodyHash: string;
}

export interface Pager {
  currentPage: number;
  pageSize: number;
}

/**
 * A page of public objects as their kept JSON texts: a list is joined, never serialised anew. A piece is one text or several that the store
 * has joined by commas, as a string or as its UTF-8 bytes.
 */
export interface TextPage<Text extends string | Uint8Array = string | Uint8Array> {
  texts: Text[];
  totalEntries: number;
}

export interface Access extends GatewaySessions {
  /** Throws `not_logged_in`. Fast for a credential seen before: what it was found to be is believed for a second, unless asked `anew`. */
  authenticate(credential: Credential, how?: { anew?: boolean }): Promise<Caller>;
  /** `from` is the client's address, for the rate limit. Throws `not_logged_in` (wrong words) or `too_many_requests`. */
  login(
    body: { username: string; password: string },
    from: string,
  ): Promise<{ accessToken: string; accessExpire: number }>;
  logout(caller: Caller): Promise<void>;
  changePassword(caller: Caller, body: { oldPassword: string; newPassword: string }): Promise<void>;
  createUser(
    caller: Caller,
    body: { username: string; email: string; password: string; balance: number },
    idempotency: Idempotency | null,
  ): Promise<{ userId: string; username: string; email: string; group: string[] }>;
  createApiKey(
    caller: Caller,
    body: { name: string },
    idempotency: Idempotency | null,
  ): Promise<{ key: { id: string; name: string; fullKey: string } }>;
  listApiKeys(caller: Caller): Promise<{ keys: { id: string; name: string; lastFour: string; createdAt: number }[] }>;
  deleteApiKey(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<void>;
  createSshKey(
    caller: Caller,
    body: { name: string; publicKey: string },
    idempotency: Idempotency | null,
  ): Promise<{ sshKey: { id: string; name: string; fingerprint: string } }>;
  listSshKeys(
    caller: Caller,
  ): Promise<{ sshKeys: { id: string; name: string; fingerprint: string; createdAt: number }[] }>;
  deleteSshKey(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<void>;
  balance(caller: Caller): Promise<{
    balance: number;
    availableBalance: number;
    availableVoucherAmount: number;
    availableCreditAmount: number;
  }>;
}

/** A launch as the contract has validated it (`interface.md` §4.1). */
export interface LaunchWish {
  name: string;
  imageId: string;
  instanceTypeId: string;
  region: string;
  billing: { chargeMode: ChargeMode; duration: number };
  remoteStorages: { mountPath: string; remoteStorageName: string; remoteStorageId: string; type: string }[];
  instanceConfiguration: {
    extraDataDiskSizeDB: number;
    enableCommonData: boolean;
    enableDocker: boolean;
    dockerStorageSize: number;
    initScript: string;
  };
  isSpotInstance: boolean;
  nodePorts: number[];
}

/** The id of the operation that a wish began: it goes out in a header, beside the body that the interface fixes. */
export interface Wished {
  /** Absent only in answers to keyed requests that a version before operations has kept. */
  operationId?: string;
}

type OnInstance = (
  caller: Caller,
  body: { instanceId: string },
  idempotency: Idempotency | null,
) => Promise<{ instanceId: string } & Wished>;

export interface Instances {
  /** `waitMs`: how long it waits in line when the region has no room; null, as if not given: not at all, it is refused. */
  launch(
    caller: Caller,
    wish: LaunchWish,
    idempotency: Idempotency | null,
    waitMs?: number | null,
  ): Promise<{ instanceId: string } & Wished>;
  /** Newest first; a page past the end has no texts and the true total. */
  list(caller: Caller, pager: Pager): Promise<TextPage>;
  stop: OnInstance;
  start: (...asked: [...Parameters<OnInstance>, waitMs?: number | null]) => ReturnType<OnInstance>;
  restart: OnInstance;
  archive: OnInstance;
  terminate: OnInstance;
  /** Larger disks: what is not set stays. Throws `no_capacity` when their pool has not so much. */
  expandDisk(
    caller: Caller,
    body: { instanceId: string } & DiskSizes,
    idempotency: Idempotency | null,
  ): Promise<{ instanceId: string } & Wished>;
  /** One instance as lists show it, and the stages of the operation that brought it up, or brings it; null when none is kept. */
  get(
    caller: Caller,
    body: { instanceId: string },
  ): Promise<{ instanceText: string; timeline: PublicStage[]; operationId: string | null; disks: ShownDisk[] }>;
  /** A link to the gateway that hands the caller's browser a session: good once, for a minute. Of another's instance for a port that is set so. */
  open(caller: Caller, body: { instanceId: string; port?: number | undefined }): Promise<{ url: string }>;
}

/** What ends an instance by itself, as it holds now. */
export interface InstanceEnds extends Omit<Ends, 'keepAliveUntilMs'> {
  instanceId: string;
  keepAliveUntilMs: number | null;
  /** When the clock stops it; null while nothing does. */
  endsAtMs: number | null;
}

export interface InstanceActivity {
  state: 'active' | 'idle' | 'unknown' | 'off';
  because: string;
  idleSinceMs: number | null;
  willStopAtMs: number | null;
  lookedAtMs: number | null;
  signals: (Signal & { says: 'active' | 'idle' | 'stale' })[];
}

/** None of it is a wish, and none has an operation: it is done when it is answered. */
export interface UseEnds {
  /** What is left out stays, null takes off; nothing given only asks. */
  set(caller: Caller, instanceId: string, wish: EndsWish): Promise<InstanceEnds>;
  /** Holds it against idleness for as long; 0 takes that back. */
  keepAlive(caller: Caller, instanceId: string, forMs: number): Promise<InstanceEnds>;
  activity(caller: Caller, instanceId: string): Promise<InstanceActivity>;
}

export interface Volumes {
  create(
    caller: Caller,
    body: { name: string; sizeGB: number; region: string; volumeType: VolumeType },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string } & Wished>;
  list(caller: Caller, pager: Pager): Promise<TextPage<string>>;
  get(caller: Caller, body: { id: string }): Promise<VolumeFacts>;
  /** Larger, also while it is mounted; the size that it has already is answered as it is. */
  expand(
    caller: Caller,
    body: { id: string; sizeGB: number },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string; sizeLimit: StorageCapabilities['sizeLimit'] } & Wished>;
  /** Done when it is answered. Instances show the name that it had when they were launched. */
  rename(
    caller: Caller,
    body: { id: string; name: string },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string }>;
  /** A new volume with all files of another. */
  copy(caller: Caller, body: CopyWish, idempotency: Idempotency | null): Promise<{ volumeText: string } & Wished>;
  delete(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<{ id: string } & Wished>;
}

/** A new volume from what is there: as large, and of the same type, where nothing else is said. */
export interface CopyWish {
  /** Of the volume, or the snapshot. */
  id: string;
  name: string;
  sizeGB?: number | undefined;
  volumeType?: VolumeType | undefined;
}

/** One volume, with what lists do not show. */
export interface VolumeFacts extends Pick<StorageCapabilities, 'sizeLimit' | 'copies'> {
  volumeText: string;
  pool: string;
  /** Instances that mount it and are not terminated. */
  mountedBy: string[];
  /** Newest first, at most a hundred. */
  snapshotTexts: string[];
  madeFrom: Source | null;
  operation: PublicOperation;
}

export interface Snapshots {
  /** What a volume holds, also while it is mounted and written to. */
  create(
    caller: Caller,
    body: { volumeId: string; name: string },
    idempotency: Idempotency | null,
  ): Promise<{ snapshotText: string } & Wished>;
  list(caller: Caller, pager: Pager): Promise<TextPage<string>>;
  /** Volumes that were restored from it stay; what is being restored is waited for. */
  delete(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<{ id: string } & Wished>;
  /** A new volume with all that it holds. */
  restore(caller: Caller, body: CopyWish, idempotency: Idempotency | null): Promise<{ volumeText: string } & Wished>;
}

interface FileState {
  sizeBytes: number;
  modifiedAtMs: number;
  /** Another after each change of the file. */
  version: string;
}

export interface ReadableFile extends FileState {
  /** From the byte `start` up to `end`, which is not in it. Throws when the file became shorter than that. */
  bytes(start: number, end: number): AsyncGenerator<Uint8Array, void>;
}

export interface FileUpload {
  /** Asked once for what is to be written; ends when the signal aborts. */
  source(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Null when it is not told before. */
  sizeBytes: number | null;
  /** Refuses to take the place of a file that is there. */
  onlyNew: boolean;
}

/** A place in a volume: `path` is relative to it, names with one slash between them; '' is the volume's own folder. */
export interface FilePlace {
  id: string;
  path: string;
}

/** Files of the caller's volumes, without an instance. Throws `too_many_requests` when too many of these are under way. */
export interface Files {
  /** By name, in the order of bytes, from where `after` (a `next` of before) says. */
  list(caller: Caller, asked: FilePlace & { limit: number; after: string | null }): Promise<FolderPage>;
  /** With those above it that are missing; one that is there stays as it is. */
  makeFolder(caller: Caller, place: FilePlace): Promise<void>;
  /** Lends the file; the signal aborts when the volume is deleted or the server stops. */
  read<T>(caller: Caller, place: FilePlace, use: (file: ReadableFile, signal: AbortSignal) => Promise<T>): Promise<T>;
  /** All of it or nothing: the file before stays until the last byte is on disk. */
  write(caller: Caller, place: FilePlace, upload: FileUpload): Promise<FileState & { created: boolean }>;
  /** A folder that is not empty only when `recursive`. A link is deleted itself. */
  delete(caller: Caller, place: FilePlace & { recursive: boolean }): Promise<void>;
}

/** Whose operations: one member is set. */
export interface OperationSubject {
  instanceId?: string | undefined;
  volumeId?: string | undefined;
  snapshotId?: string | undefined;
  imageId?: string | undefined;
}

export interface Operations {
  read(caller: Caller, body: { operationId: string }): Promise<PublicOperation>;
  /** Newest first. */
  list(
    caller: Caller,
    subject: OperationSubject,
    pager: Pager,
  ): Promise<{ operations: PublicOperation[]; totalEntries: number }>;
  /** Wishes what takes it back; answers it as Cancelled. Throws `not_now` where nothing does. */
  cancel(
    caller: Caller,
    body: { operationId: string },
    idempotency: Idempotency | null,
  ): Promise<{ operation: PublicOperation } & Wished>;
}

/** A page of events, in order. */
export interface ToldEvents {
  /** Numbers before the page that can't be told. */
  gap: { fromSeq: number; toSeq: number; why: string } | null;
  events: { seq: number; kind: string; subjectId: string; atMs: number; /** A JSON object. */ dataText: string }[];
  /** Whoever reads on after this number misses nothing. */
  lastSeq: number;
}

export interface Events {
  /**
   * The account's events after a number, or from now on (null), until the signal aborts. The first page is there at once and holds
   * nothing but where it begins; the next is read when it is drawn. Throws `too_many_requests` when too many are followed.
   */
  follow(caller: Caller, afterSeq: number | null, signal: AbortSignal): AsyncGenerator<ToldEvents, void>;
}

export interface CatalogFamily {
  gpuName: string;
  isSpotInstance: boolean;
  regionInfos: {
    regionId: string;
    regionName: string;
    instanceTypeInfos: {
      instanceTypeId: string;
      gpuNum: number;
      stockStatus: 'InStock' | 'OutOfStock';
      price: { chargeMode: ChargeMode; price: number }[];
      instanceTypeName: string;
      cpuCores: number;
      memoryGB: number;
      rootDiskGB: number;
      dataDiskGB: number;
    }[];
  }[];
}

export interface ListedImage {
  imageId: string;
  name: string;
  architecture: string;
  isPublic: string;
  tags: string[] | null;
  type: string;
  /** What an own one is had by; '' for those of the operator. */
  ref: string;
  sizeBytes: number;
  state: 'Ready' | 'Absent' | 'Preparing' | 'Failed' | 'Saving';
  stateText: string;
  progressPercent: number;
}

export interface ListedRegion {
  region: Region;
  engine: { name: string; answers: boolean; text: string };
  capabilities: Record<string, string | boolean>;
  /** Where volumes of each type lie, and how much of it may still be promised. */
  volumeTypes: ({ type: VolumeType; pool: string; freeGB: number } & StorageCapabilities)[];
}

export interface Catalog {
  families(): Promise<CatalogFamily[]>;
  regions(): Promise<ListedRegion[]>;
}

export interface Images {
  /** Those on offer, then the caller's own. */
  list(caller: Caller, pager: Pager): Promise<{ images: ListedImage[]; totalEntries: number }>;
  /** An image of the caller's own, by its registry's name. */
  create(
    caller: Caller,
    body: { name: string; ref: string },
    idempotency: Idempotency | null,
  ): Promise<{ imageId: string }>;
  /** One that is saved from an instance; it can be launched once it is Ready. */
  save(
    caller: Caller,
    body: { instanceId: string; name: string },
    idempotency: Idempotency | null,
  ): Promise<{ imageId: string } & Wished>;
  /** A saved one is removed by its pass; one that a registry has is gone at once. */
  delete(
    caller: Caller,
    body: { imageId: string },
    idempotency: Idempotency | null,
  ): Promise<{ imageId: string } & Wished>;
}

/** Credentials for registries. No answer has the secret. */
export interface Registries {
  create(
    caller: Caller,
    body: { server: string; username: string; secret: string },
    idempotency: Idempotency | null,
  ): Promise<{ registry: { id: string; server: string; username: string } }>;
  list(caller: Caller): Promise<{ registries: { id: string; server: string; username: string; createdAt: number }[] }>;
  delete(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<void>;
}

type ToldOfOrphan =
  'kind' | 'regionId' | 'engineName' | 'subjectId' | 'ownerId' | 'imageRef' | 'running' | 'handling' | 'note';

export interface ListedOrphan extends Pick<Orphan, ToldOfOrphan> {
  strayId: string;
  /** Of the account on its label; '' when there is none. */
  ownerName: string;
  createdAt: number;
  firstSeenAt: number;
  lastSeenAt: number;
  /** How much longer it is watched before it is deleted; null: it is kept. */
  deletedInSeconds: number | null;
}

export interface OrphanWish {
  strayId: string;
  action: 'adopt' | 'stop' | 'delete';
  /** To adopt what was made for an account that is gone. */
  username?: string | undefined;
  /** To adopt: the type that it is counted and billed as. */
  instanceTypeId?: string | undefined;
  name?: string | undefined;
}

/** What an engine holds of ours that no intent explains; for administrators. */
export interface Orphans {
  /** The longest known first. */
  list(): Promise<ListedOrphan[]>;
  /** Answers the instance that it became, when it was adopted. */
  handle(caller: Caller, wish: OrphanWish): Promise<{ strayId: string; instanceId: string | null }>;
}

export interface Control {
  access: Access;
  instances: Instances;
  volumes: Volumes;
  snapshots: Snapshots;
  files: Files;
  catalog: Catalog;
  images: Images;
  registries: Registries;
  orphans: Orphans;
  ends: UseEnds;
  ports: Ports;
  metrics: Metrics;
  logs: Logs;
  commands: Commands;
  terminals: UseTerminals;
  forwarding: Forwarding;
  routeTable: RouteTable;
  operations: Operations;
  events: Events;
  /** Changes with everything the account can list; an equal number means an equal answer. */
  versionOf(accountId: string): Promise<number>;
  /** `ready` is false while the store does not answer; an engine that is away is said, and does not make it false. */
  health(): Promise<{ ready: boolean; text: string }>;
}
