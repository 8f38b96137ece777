/**
 * A gateway before real servers on local ports, with an in-memory Forwarding: two accounts, and
 * instances that tests add. Closes everything after each test; open resources fail the test.
 */
import { createServer, request } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, Server } from 'node:http';
import { connect, createServer as createTcpServer } from 'node:net';
import type { Server as TcpServer, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';
import type {
  Caller,
  Credential,
  Forwarding,
  GatewayRoute,
  NotebookBar,
  TrafficKind,
} from '../../../src/control/index.ts';
import { makeRevocations } from '../../../src/control/access/routing/revocations.ts';
import type { Log } from '../../../src/control/kernel/logger.ts';
import type { RevocationSubject } from '../../../src/control/access/routing/gateway-types.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { PortAccess } from '../../../src/domain/access/port-access.ts';
import { instanceNotFound, Refusal } from '../../../src/domain/kernel/refusal.ts';
import { bindPort } from '../../../src/main/bind-port.ts';
import { makeGateway } from '../../../src/edge/gateway/gateway.ts';
import type { Gateway } from '../../../src/edge/gateway/gateway.ts';
import type { GatewayDeps } from '../../../src/edge/gateway/gateway-deps.ts';

export const ISSUER = 'https://berth.test';
export const API_ORIGIN = 'http://console.test:8080';
export const ALICE = 'account-alice';
export const MALLORY = 'account-mallory';

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
export const jwtOf = (accountId: string, issuer = ISSUER): string =>
  `${encode({ alg: 'EdDSA' })}.${encode({ iss: issuer, sub: accountId })}.${'s'.repeat(43)}`;
export const keyOf = (accountId: string): string => `berth_${accountId}`;

export const idOf = (digit: string): InstanceId =>
  instanceIdOf(`${digit.repeat(8)}-1111-4111-8111-${digit.repeat(12)}`);

export interface FakeInstance {
  route: GatewayRoute;
  /** Instance port to local port. */
  ports: Map<number, number>;
  streams: Map<number, () => Duplex>;
  /** The same as `ports`, of programs on loopback inside. */
  onLoopback: Map<number, number>;
}

export interface Harness {
  gateway: Gateway;
  origin: string;
  port: number;
  instances: Map<string, FakeInstance>;
  sessions: Map<string, string>;
  /** Keyed by token. */
  shares: Map<string, { instanceId: string; port: number; expiresAtMs: number }>;
  handovers: Map<string, { accountId: string; instanceId: string }>;
  logged: { facts: Record<string, unknown>; text: string }[];
  /** Publishes a revocation to the gateway. */
  ended: (ended: RevocationSubject) => void;
  dials: number;
  loopbackDials: number;
  dialled: Set<Socket>;
  /** Reported traffic. */
  began: { id: string; kind: TrafficKind; done: boolean }[];
  add(
    id: InstanceId,
    more: {
      owner?: string;
      publicPorts?: number[];
      access?: Record<number, PortAccess>;
      ports?: Record<number, number>;
      route?: Partial<GatewayRoute>;
    },
  ): FakeInstance;
}

/** Runs after the test, last first. Not a hook of this file: the files of a worker share it. */
export const onCleanup = (clean: () => Promise<void>): void => onTestFinished(clean);

export interface HarnessOptions extends Partial<Omit<GatewayDeps, 'portDomain' | 'notebookBar'>> {
  notebookBar?: NotebookBar;
  /** A function takes the bound port of the gateway. */
  portDomain?: GatewayDeps['portDomain'] | ((port: number) => string);
}

export async function start({ portDomain, ...more }: HarnessOptions = {}): Promise<Harness> {
  const instances = new Map<string, FakeInstance>();
  const sessions = new Map<string, string>();
  const shares: Harness['shares'] = new Map();
  const handovers = new Map<string, { accountId: string; instanceId: string }>();
  const logged: Harness['logged'] = [];
  const dialled = new Set<Socket>();
  const began: Harness['began'] = [];
  const endings = makeRevocations();
  const write: Log['info'] = (facts, text) => void logged.push({ facts, text });
  const log: Log = { debug: write, info: write, warn: write, error: write };
  const forwarding: Forwarding = {
    route: async (id) => instances.get(id)?.route ?? null,
    redeem: async (key) => {
      const found = handovers.get(key);
      handovers.delete(key);
      if (found === undefined) return null;
      const session = `session-of-${found.accountId}-${key}`;
      sessions.set(session, found.accountId);
      return { session, ...found, expiresAtMs: Date.now() + 3_600_000 };
    },
    session: async (secret) => {
      const accountId = sessions.get(secret);
      return accountId === undefined ? null : { accountId };
    },
    share: async (token) => shares.get(token) ?? null,
    onRevoked: endings.onRevoked,
    ssh: async () => null,
    recordSshLogin: async () => {},
    beginTraffic: (id, kind) => {
      const one = { id, kind, done: false };
      began.push(one);
      return () => {
        if (one.done) throw new Error('the request was ended twice');
        one.done = true;
      };
    },
    dialLoopback: async (id, port, signal) => {
      harness.loopbackDials += 1;
      const real = instances.get(id)?.onLoopback.get(port);
      if (real === undefined) throw new EngineFault('busy', 'nothing listens on loopback', { retry: true });
      return dialTcp(real, signal);
    },
    dial: async (id, port, signal) => {
      harness.dials += 1;
      const stream = instances.get(id)?.streams.get(port);
      if (stream !== undefined) return stream();
      const real = instances.get(id)?.ports.get(port);
      if (real === undefined) throw new EngineFault('busy', 'nothing listens', { retry: true });
      const socket = await dialTcp(real, signal);
      dialled.add(socket);
      socket.once('close', () => dialled.delete(socket));
      return socket;
    },
  };
  const { port, server } = await bindPort({ host: '127.0.0.1', port: 0 }, { isTls: more.tls !== undefined });
  const gateway = makeGateway({
    forwarding,
    notebookBar: noBar,
    authenticate,
    wake: async () => ({ dollarsPerHour: null, expectedMs: null }),
    log,
    apiUrl: API_ORIGIN,
    issuer: ISSUER,
    ...more,
    portDomain: typeof portDomain === 'function' ? portDomain(port) : portDomain,
  });
  await gateway.listenOn(server);
  onCleanup(async () => gateway.stop());
  const harness: Harness = {
    gateway,
    origin: `http://${gateway.address}`,
    port,
    instances,
    sessions,
    shares,
    handovers,
    logged,
    ended: endings.publish,
    dials: 0,
    loopbackDials: 0,
    dialled,
    began,
    add(id, { owner = ALICE, publicPorts = [], access = {}, ports = {}, route = {} }) {
      const instance: FakeInstance = {
        route: {
          instanceId: id,
          regionId: 'own',
          ownerId: owner,
          access: new Map<number, PortAccess>([
            ...publicPorts.map((port): [number, PortAccess] => [port, 'public']),
            ...Object.entries(access).map(([port, who]): [number, PortAccess] => [Number(port), who]),
          ]),
          nodePorts: new Map(),
          running: true,
          status: 'Running',
          notebookToken: `token-of-${id}`,
          sshFront: false,
          notebook: null,
          wake: 'off',
          ...route,
        },
        ports: new Map(Object.entries(ports).map(([inside, real]) => [Number(inside), real])),
        streams: new Map(),
        onLoopback: new Map(),
      };
      instances.set(id, instance);
      return instance;
    },
  };
  return harness;
}

const noSuchInstance = async (): Promise<never> => Promise.reject(instanceNotFound());
export const noBar: NotebookBar = { read: noSuchInstance, stop: noSuchInstance };

async function authenticate(credential: Credential): Promise<Caller> {
  for (const accountId of [ALICE, MALLORY]) {
    const good =
      credential.kind === 'token' ? credential.token === jwtOf(accountId) : credential.key === keyOf(accountId);
    if (good) return { accountId, username: accountId, email: '', roles: [], sessionId: null, scopes: null };
  }
  throw new Refusal('not_logged_in', 'you are not logged in');
}

/** The signal aborts the dialling only. */
async function dialTcp(port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const giveUp = (): void => void socket.destroy(new Error('the listener was aborted', { cause: signal.reason }));
    const refuse = (cause: Error): void => reject(new EngineFault('busy', 'nothing listens', { retry: true, cause }));
    signal.addEventListener('abort', giveUp, { once: true });
    socket.once('error', refuse);
    socket.once('connect', () => {
      signal.removeEventListener('abort', giveUp);
      socket.off('error', refuse);
      resolve(socket);
    });
  });
}

/** A web server inside an instance; returns its local port. */
export async function serve(listener: RequestListener): Promise<{ port: number; server: Server }> {
  const server = createServer(listener);
  server.listen(0, '127.0.0.1');
  const port = await portWhenListening(server);
  onCleanup(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port, server };
}

/** A raw TCP server inside an instance. */
export async function serveTcp(
  onSocket: (socket: Socket) => void,
): Promise<{ port: number; server: TcpServer; sockets: Set<Socket> }> {
  const sockets = new Set<Socket>();
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).once('close', () => sockets.delete(socket));
    onSocket(socket);
  });
  server.listen(0, '127.0.0.1');
  const port = await portWhenListening(server);
  onCleanup(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port, server, sockets };
}

async function portWhenListening(server: TcpServer): Promise<number> {
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not listening');
  return address.port;
}

export interface Answered {
  status: number;
  headers: IncomingHttpHeaders;
  rawHeaders: string[];
  body: string;
  trailers: NodeJS.Dict<string>;
}

/** Sends a request on a new connection. */
export async function ask(
  harness: Harness,
  path: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: Record<string, string | string[]>; body?: string | Buffer } = {},
): Promise<Answered> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const asked = request({ port: harness.port, host: '127.0.0.1', path, method, headers, agent: false }, resolve);
    asked.on('error', reject);
    asked.end(body);
  });
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(Buffer.from(chunk));
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    rawHeaders: response.rawHeaders,
    body: Buffer.concat(chunks).toString('utf8'),
    trailers: response.trailers,
  };
}

/** Sends raw bytes and reads to the end of the connection. */
export async function sendRaw(harness: Harness, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: harness.port, host: '127.0.0.1', allowHalfOpen: true });
    let got = '';
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => (got += chunk));
    socket.on('end', () => socket.end());
    socket.on('close', () => resolve(got));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
    socket.write(text, 'latin1');
  });
}

/** Echoes the head that the instance received. */
export const echoHead: RequestListener = (req, res) => {
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers, rawHeaders: req.rawHeaders }));
};

export interface SeenHead {
  method: string;
  url: string;
  headers: Record<string, string | undefined>;
}

export function seenBy(answered: Answered): SeenHead {
  const seen: unknown = JSON.parse(answered.body);
  if (!isSeen(seen)) throw new Error(`not an echo: ${answered.body}`);
  return seen;
}

const isSeen = (value: unknown): value is SeenHead =>
  typeof value === 'object' && value !== null && 'method' in value && 'url' in value && 'headers' in value;

/** Waits for a condition. */
export async function until(what: string, holds: () => boolean, timeoutMs = 120_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`timed out before: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Waits until a growing number stops growing; returns the number. */
export async function stableValue(value: () => number): Promise<number> {
  let last = -1;
  let still = 0;
  await until('the value is stable', () => {
    still = value() > 0 && value() === last ? still + 1 : 0;
    last = value();
    return still > 40;
  });
  return last;
}
