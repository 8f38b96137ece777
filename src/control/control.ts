/**
 * What the edge may ask of control: every use-case, by subject. Each validates against the state, authorises, and in ONE
 * transaction writes the wish, the event and the idempotency record, answers, and wakes the loop; none calls an engine.
 * Every refusal is a `Refusal`; anything else thrown is a fault of ours (500).
 */
import type { Duplex } from 'node:stream';
import type { ChargeMode, Region } from '../domain/catalog.ts';
import type { InstanceId } from '../domain/ids.ts';
import type { VolumeType } from '../domain/volume.ts';

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

export interface Access {
  /** Throws `not_logged_in`. Fast for a credential seen before. */
  authenticate(credential: Credential): Promise<Caller>;
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

type OnInstance = (
  caller: Caller,
  body: { instanceId: string },
  idempotency: Idempotency | null,
) => Promise<{ instanceId: string }>;

export interface Instances {
  launch(caller: Caller, wish: LaunchWish, idempotency: Idempotency | null): Promise<{ instanceId: string }>;
  /** Newest first; a page past the end has no texts and the true total. */
  list(caller: Caller, pager: Pager): Promise<TextPage>;
  stop: OnInstance;
  start: OnInstance;
  restart: OnInstance;
  archive: OnInstance;
  terminate: OnInstance;
  /** A link to the gateway that hands the caller's browser a session for this instance: good once, for a minute. */
  open(caller: Caller, body: { instanceId: string; port?: number | undefined }): Promise<{ url: string }>;
}

export interface Volumes {
  create(
    caller: Caller,
    body: { name: string; sizeGB: number; region: string; volumeType: VolumeType },
    idempotency: Idempotency | null,
  ): Promise<{ volumeText: string }>;
  list(caller: Caller, pager: Pager): Promise<TextPage<string>>;
  delete(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<{ id: string }>;
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
  state: 'Ready' | 'Absent' | 'Preparing' | 'Failed';
  stateText: string;
  progressPercent: number;
}

export interface ListedRegion {
  region: Region;
  engine: { name: string; answers: boolean; text: string };
  capabilities: Record<string, string | boolean>;
}

export interface Catalog {
  families(): Promise<CatalogFamily[]>;
  images(pager: Pager): Promise<{ images: ListedImage[]; totalEntries: number }>;
  regions(): Promise<ListedRegion[]>;
}

/** Where the gateway may send a request, and who may send it. */
export interface GatewayRoute {
  instanceId: InstanceId;
  ownerId: string;
  /** Ports that anyone may reach: those named in `nodePorts`, 22 aside. */
  publicPorts: ReadonlySet<number>;
  running: boolean;
  /** For the page a person sees when it does not run. */
  status: string;
  /** Sent inward to the notebook, never outward. */
  notebookToken: string;
}

export interface Forwarding {
  /** Null for an unknown or released instance. Fast: asked on each request. */
  route(instanceId: string): Promise<GatewayRoute | null>;
  /** Turns a one-time handover key into a session: its secret (for the gateway's cookie) and whose and which it is. Null if spent. */
  redeem(
    handover: string,
  ): Promise<{ session: string; accountId: string; instanceId: string; expiresAtMs: number } | null>;
  /** The instances of which account a gateway session opens; null when it is unknown, ended, or its login was. */
  session(secret: string): Promise<{ accountId: string } | null>;
  /** A connection to a port of an instance: rejects with an `EngineFault` (`busy`: nothing listens there yet; `not_found`: it does not run). */
  dial(instanceId: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;
}

export interface Control {
  access: Access;
  instances: Instances;
  volumes: Volumes;
  catalog: Catalog;
  forwarding: Forwarding;
  /** Changes with everything the account can list; an equal number means an equal answer. */
  versionOf(accountId: string): Promise<number>;
  /** `ready` is false while the store does not answer; an engine that is away is said, and does not make it false. */
  health(): Promise<{ ready: boolean; text: string }>;
}
