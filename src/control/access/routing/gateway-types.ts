import type { Duplex } from 'node:stream';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { AccessByPort, PortAccess, SessionCredential } from '../../../domain/access/port-access.ts';
import type { Waker } from '../../../domain/compute/wake.ts';
import type { Engine } from '../../../engines/contract.ts';
import type { Caller, Credential, Mutation } from '../../kernel/ports.ts';

export interface PortInfo {
  port: number;
  access: PortAccess;
  isDefault: boolean;
  pathUrl: string;
  hostUrl: string | null;
  nodePort: { address: string; port: number } | null;
  note: string;
}

export interface ShareInfo {
  shareId: string;
  port: number;
  name: string;
  createdAtMs: number;
  expiresAtMs: number;
}

/** Changes take effect at once, without an operation, and outlive stop and start. */
export interface Ports {
  setAccess(
    caller: Caller,
    body: { instanceId: string; port: number; access: PortAccess | 'default' },
  ): Promise<PortInfo>;
  /** Ports in `nodePorts` except 22, ports with a setting, and shared ports. */
  list(caller: Caller, instanceId: string): Promise<PortInfo[]>;
  /** Opens the port to everybody with the link. Only this answer contains the token. */
  share: Mutation<
    { instanceId: string; port: number; forMs: number; name: string },
    ShareInfo & { token: string; url: string }
  >;
  shares(caller: Caller, instanceId: string): Promise<ShareInfo[]>;
  unshare: Mutation<{ instanceId: string; shareId: string }, void>;
}

export interface SessionInfo {
  id: string;
  instanceId: string;
  openedAtUnixMs: number;
  /** Rounded to the minute. */
  lastUsedAtUnixMs: number;
  from: SessionCredential;
}

export interface GatewaySessions {
  listSessions(caller: Caller): Promise<{ sessions: SessionInfo[] }>;
  revokeSession: Mutation<{ id: string }, void>;
}

export interface OpenedPort {
  instanceId: string;
  port: number;
  expiresAtMs: number;
}

export interface GatewayRoute {
  instanceId: InstanceId;
  regionId: string;
  ownerId: string;
  /** Notebook excluded. Absent ports are the owner's alone. */
  access: AccessByPort;
  running: boolean;
  status: string;
  /** `address:port` of the host by port, while the instance runs; without port 22. */
  nodePorts: ReadonlyMap<number, string>;
  /** Only sent upstream to the notebook. */
  notebookToken: string;
  /** The gateway serves its ssh: the image has no sshd. */
  sshFront: boolean;
  /**
   * State and last log line of the notebook server; null: unknown. `command`: the image's own
   * command runs in its place.
   */
  notebook: { state: string; text: string } | null;
  /** Callers whose requests start it while it is stopped. */
  wake: Waker;
  /** Image of a launch, until its notebook is ready; absent: it waits, fails or has no notebook. */
  startingImage?: string | undefined;
}

export interface SshIdentity {
  /** Owner of the instance. */
  account: { accountId: string; username: string };
  hostKey: string;
  /** Base64 blobs of the public keys. */
  keys: string[];
  /** Base64 blobs of the keys that sign certificates. */
  authorities: string[];
  /** Names of which a certificate must have one. */
  principals: string[];
}

/** Login at an ssh front, for the audit log. */
export interface SshLogin {
  instanceId: string;
  /** Null: refused. */
  account: SshIdentity['account'] | null;
  /** `SHA256:…` of the key that the login rests on; empty: refused. */
  fingerprint: string;
  address: string;
  /** The client's identification, such as `SSH-2.0-OpenSSH_9.2`. */
  program: string;
  atMs: number;
}

/** Engine verbs of the ssh front, called without the API: ssh sessions survive API outages. */
export type SshBackend = Pick<Engine, 'joinNetwork' | 'listenUnix' | 'openExec' | 'exec'>;

/** `poll`: requests of an open notebook page without a person's action. */
export type TrafficKind = 'use' | 'poll';

export type IdentifyCredential = (credential: Credential) => Promise<Pick<Caller, 'accountId' | 'scopes' | 'limits'>>;

export type RevocationSubject = { accountId: string } | { instanceId: string };

/** Client of the gateway, for the audit log. */
export interface Visitor {
  address: string;
  userAgent: string;
}

/** A request at the gateway for an instance that does not run. */
export interface WakeRequest {
  instanceId: InstanceId;
  /** Null: a visitor without an account. */
  accountId: string | null;
  credential: 'login' | 'apiKey' | 'link' | 'none';
  visitor: Visitor;
  /** False: only asks for the offer. */
  starts: boolean;
}

export interface WakeOffer {
  /** Null: its time is paid, or the visitor is not its owner. */
  dollarsPerHour: number | null;
  /** Duration of its last start; null: not known. */
  expectedMs: number | null;
}

/** Does nothing to an instance that starts or runs. Throws a `Refusal`. */
export type Wake = (request: WakeRequest) => Promise<WakeOffer>;

export interface Forwarding {
  /** Null for an unknown or released instance. Called for each request, so it is cached. */
  route(instanceId: string): Promise<GatewayRoute | null>;
  /** Exchanges a one-time handover key for a session and the cookie's secret. Null if used. */
  redeem(
    handover: string,
    visitor: Visitor,
  ): Promise<{ session: string; accountId: string; instanceId: string; expiresAtMs: number } | null>;
  /** Null if unknown or ended, also with the login. */
  session(secret: string): Promise<Pick<Caller, 'accountId' | 'limits'> | null>;
  share(token: string): Promise<OpenedPort | null>;
  /** Called at login and during sessions. Null for an unknown or released instance. */
  ssh(instanceId: string): Promise<SshIdentity | null>;
  /** Records a login. Never rejects: while the API is away, the record waits. */
  recordSshLogin(login: SshLogin): Promise<void>;
  /** Rejects with an `EngineFault`: `busy` without a listener, `not_found` unless running. */
  dial(instanceId: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;
  /** The same for a program that listens on 127.0.0.1 or ::1 only; `rejected` where none can. */
  dialLoopback(instanceId: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;
  /** Counts a request or WebSocket for idle detection, until the returned function is called. */
  beginTraffic(instanceId: InstanceId, kind: TrafficKind): () => void;
  /** Calls `listener` after each committed revocation. Returns the unsubscribe function. */
  onRevoked(listener: (ended: RevocationSubject) => void): () => void;
}

/** `snapshot`: a part or the last part of all routes; null: changes. */
export interface RouteUpdate {
  snapshot: 'part' | 'last' | null;
  routes: GatewayRoute[];
  gone: string[];
}

export interface RouteTable {
  /** Sends all routes, then committed changes, until the signal aborts. Snapshots may repeat. */
  follow(send: (update: RouteUpdate) => void, signal: AbortSignal, which?: { onlyRunning: boolean }): Promise<void>;
}
