/** What of control is about coming to instances through the gateway: who may, by what, and what the gateway asks. */
import type { Duplex } from 'node:stream';
import type { InstanceId } from '../../domain/ids.ts';
import type { AccessByPort, PortAccess } from '../../domain/port-access.ts';
import type { Engine } from '../../engines/contract.ts';
import type { Caller, Credential, Idempotency } from '../base/caller.ts';

export interface PortInfo {
  port: number;
  access: PortAccess;
  isDefault: boolean;
  pathUrl: string;
  hostUrl: string | null;
  /** Null where it has none, or none now. */
  nodePort: { address: string; port: number } | null;
  /** What the setting does not govern; '' when that is nothing. */
  note: string;
}

export interface ShareInfo {
  shareId: string;
  port: number;
  name: string;
  createdAtMs: number;
  expiresAtMs: number;
}

/** None of it is a wish: it is done when it is answered, in any state of the instance but released, and outlives stop and start. */
export interface Ports {
  setAccess(
    caller: Caller,
    body: { instanceId: string; port: number; access: PortAccess | 'default' },
  ): Promise<PortInfo>;
  /** Those in `nodePorts` (22 aside), those that are set, and those that are shared. */
  list(caller: Caller, instanceId: string): Promise<PortInfo[]>;
  /** A link that opens the port to whoever has it; its token is told this once. */
  share(
    caller: Caller,
    body: { instanceId: string; port: number; forMs: number; name: string },
    idempotency: Idempotency | null,
  ): Promise<ShareInfo & { token: string; url: string }>;
  /** Oldest first. */
  shares(caller: Caller, instanceId: string): Promise<ShareInfo[]>;
  unshare(
    caller: Caller,
    body: { instanceId: string; shareId: string },
    idempotency: Idempotency | null,
  ): Promise<void>;
}

export interface SessionInfo {
  id: string;
  instanceId: string;
  openedAtMs: number;
  /** To the minute. */
  lastUsedAtMs: number;
  from: 'login' | 'apiKey';
}

/** Sessions that browsers have at the gateway. */
export interface GatewaySessions {
  /** The account's own, the last used first. */
  listSessions(caller: Caller): Promise<SessionInfo[]>;
  revokeSession(caller: Caller, body: { id: string }, idempotency: Idempotency | null): Promise<void>;
}

/** What a link opens, and until when. */
export interface OpenedPort {
  instanceId: string;
  port: number;
  expiresAtMs: number;
}

/** Where the gateway may send a request, and who may send it. */
export interface GatewayRoute {
  instanceId: InstanceId;
  ownerId: string;
  /** Who may come to which port, notebook aside. One that is not in it is the owner's alone. */
  access: AccessByPort;
  running: boolean;
  /** For the page a person sees when it does not run. */
  status: string;
  /** Sent inward to the notebook, never outward. */
  notebookToken: string;
  /** Whether its ssh is to be served by the gateway's process: its image has no sshd. */
  sshFront: boolean;
}

/** As whom an instance answers ssh, and whom it lets in. */
export interface SshIdentity {
  /** Its host key, as OpenSSH writes a private key of type ed25519. */
  hostKey: string;
  /** The account's public keys: each is the base64 of its blob. */
  keys: string[];
}

/** What serving ssh needs of the engine that holds the instance, past the API: a session must not hang on that. */
export type SshDrivers = Pick<Engine, 'joinNetwork' | 'listenUnix' | 'openExec' | 'exec'>;

/** `use` is somebody's; a `poll` is what a notebook's page asks by itself as long as it is open somewhere. */
export type TrafficKind = 'use' | 'poll';

/** Whose a credential is. Throws `not_logged_in`. */
export type IdentifyCredential = (credential: Credential) => Promise<Pick<Caller, 'accountId'>>;

/** Where a way in may have ended: at an account's logins, keys or sessions, or at what an instance lets in. */
export type RevocationSubject = { accountId: string } | { instanceId: string };

export interface Forwarding {
  /** Null for an unknown or released instance. Fast: asked on each request. */
  route(instanceId: string): Promise<GatewayRoute | null>;
  /** Turns a one-time handover key into a session: its secret (for the gateway's cookie) and whose and which it is. Null if spent. */
  redeem(
    handover: string,
  ): Promise<{ session: string; accountId: string; instanceId: string; expiresAtMs: number } | null>;
  /** The instances of which account a gateway session opens; null when it is unknown, ended, or its login was. */
  session(secret: string): Promise<{ accountId: string } | null>;
  /** What a link to a port opens; null when its token is unknown, or it has ended. */
  share(token: string): Promise<OpenedPort | null>;
  /** Asked at each login, and again while it lasts; null for an unknown or released instance. */
  ssh(instanceId: string): Promise<SshIdentity | null>;
  /** A connection to a port of an instance: rejects with an `EngineFault` (`busy`: nothing listens there yet; `not_found`: it does not run). */
  dial(instanceId: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;
  /** A request or a WebSocket goes to the instance, until what is answered is called, once. For idleness. */
  beginTraffic(instanceId: InstanceId, kind: TrafficKind): () => void;
  /** Calls `look` where a way in may have ended, once that is committed, until what is answered is called. */
  onRevoked(look: (ended: RevocationSubject) => void): () => void;
}

/** What a gateway of its own process is told. `snapshot`: a part, or the last part, of all there are; null: what has changed since. */
export interface RouteUpdate {
  snapshot: 'part' | 'last' | null;
  routes: GatewayRoute[];
  /** Released, or never there. */
  gone: string[];
}

export interface RouteTable {
  /**
   * Tells all routes, then each change once it is committed, until the signal ends it. A snapshot may come again. `onlyRunning`: the snapshot is
   * without those that stand still, which may be many; a change may be of any.
   */
  follow(tell: (told: RouteUpdate) => void, signal: AbortSignal, which?: { onlyRunning: boolean }): Promise<void>;
}
