/**
 * # The gateway
 *
 * The door of instances to the web: `/notebook/<instanceId>/…` is the notebook, `/forward/<instanceId>/<port>/…` any other port. A
 * request goes through these rooms, each a file:
 *
 * 1. `head.ts` reads the head once and refuses what can be read in two ways; `routing.ts` makes one object of the address.
 * 2. `admission.ts` decides who may come in, by `credentials.ts`, `cookies.ts` and `share-token.ts`; `open.ts` turns a link into a
 *    session.
 * 3. `instance-pools.ts` has or makes a connection; `inward.ts` writes the head that the instance gets.
 * 4. `forward.ts` passes request and response, `upgrade.ts` WebSockets; `outward.ts` writes the head that the browser gets.
 * 5. `answers.ts` speaks when no instance can, and `revocation.ts` cuts what was let in and no longer would be.
 *
 * Clients speak HTTP/1.1, or HTTP/2 where TLS is on: `http2.ts` makes of each stream what the rooms above know (`client-exchange.ts`).
 *
 * What it promises and what path mode can't is written in docs/reference/gateway.md.
 */
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { BlockList, isIPv6 } from 'node:net';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Duplex } from 'node:stream';
import type { Forwarding, TrafficKind, IdentifyCredential, Log } from '../../control/index.ts';
import { admit, lasting } from './admission.ts';
import type { Admission, AdmissionDeps, Admitted, Visit } from './admission.ts';
import {
  badRequest,
  crowded,
  internal,
  notRunning,
  nothingHere,
  sendAnswer,
  sendRawAnswer,
  slashed,
  stopping,
  tooMany,
  unavailable,
  withoutToken,
} from './answers.ts';
import type { Answer } from './answers.ts';
import { isSecure, shareCookie } from './cookies.ts';
import { breakOff } from './client-exchange.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import { Credentials } from './credentials.ts';
import { Crowd } from './connection-limit.ts';
import { forward } from './forward.ts';
import type { Exchange } from './forward.ts';
import { hasBody, readHead } from './head.ts';
import type { Head } from './head.ts';
import { Http2Clients } from './http2.ts';
import { IdleWatch } from './idle.ts';
import { InstancePools } from './instance-pools.ts';
import type { PortPool } from './port-pool.ts';
import { inwardHeaders, peerOf, senderOf } from './upstream-headers.ts';
import type { Peer, Sender } from './upstream-headers.ts';
import { defaultGatewayLimits, type GatewayLimits } from './limits.ts';
import { open } from './open.ts';
import { addressWithout, isNavigation, shownToken, type Shown } from './share-token.ts';
import { Revocation } from './revocation.ts';
import type { Live } from './revocation.ts';
import { targetOf } from './routing.ts';
import type { InstanceTarget, Place } from './routing.ts';
import { tunnel } from './upgrade.ts';

export interface GatewayTls {
  first: { cert: string; key: string };
  follow: (taken: (pair: { cert: string; key: string }) => void) => void;
}

export interface GatewayDeps {
  forwarding: Forwarding;
  authenticate: IdentifyCredential;
  log: Log;
  /** Where the console is, for the way out of a page: `https://berth.example`. Asked when needed, as the API may listen later. */
  apiOrigin: string | (() => string);
  /** `iss` of our access tokens: what names it is never passed to an instance. */
  issuer: string;
  /** Origin under which browsers see this gateway, when a proxy before it ends TLS; else it follows from the Host header. */
  publicOrigin?: string | undefined;
  /** Addresses and ranges (CIDR) of proxies whose `X-Forwarded-For`, `-Proto` and `-Host` are believed. */
  trustedProxies?: readonly string[] | undefined;
  /** `<port>-<instanceId>` below it leads to that port; in lower case, with the port that browsers name. Asked when needed. */
  portDomain?: (() => string | null) | undefined;
  /** TLS on the way to clients; `follow` tells of certificates that take the place of the first. */
  tls?: GatewayTls | undefined;
  limits?: Partial<GatewayLimits> | undefined;
  now?: (() => number) | undefined;
}

/** Of a client. */
interface Connection {
  /** Under way on it: nothing may be written into them from aside. */
  responses: Set<ClientResponse>;
  peer: Peer;
  credentials: Credentials;
}

/** A client that leaves: the 'close' of its response tells. */
const ignore = (): void => {};

const originOf = (address: string): string => new URL(address).origin;

export const makeGateway = (deps: GatewayDeps): Gateway => new Gateway(deps);

export class Gateway {
  readonly #deps: GatewayDeps;
  readonly #limits: GatewayLimits;
  readonly #now: () => number;
  readonly #trusted: BlockList;
  readonly #publicOrigin: { origin: string; scheme: string } | null;
  readonly #portDomain: () => string | null;
  readonly #admission: AdmissionDeps;
  readonly #server: Server;
  readonly #crowd: Crowd;
  readonly #http2: Http2Clients;
  readonly #pools: InstancePools;
  readonly #revocation: Revocation;
  readonly #idle: IdleWatch;
  readonly #tunnels = new Set<Duplex>();
  readonly #connections = new WeakMap<Duplex, Connection>();
  #requests = 0;
  #stopping = false;
  #onQuiet: (() => void) | null = null;

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.#limits = { ...defaultGatewayLimits, ...deps.limits };
    this.#now = deps.now ?? Date.now;
    const { forwarding, authenticate } = deps;
    const apiOrigin = (): string => originOf(typeof deps.apiOrigin === 'string' ? deps.apiOrigin : deps.apiOrigin());
    this.#trusted = addressList(deps.trustedProxies ?? []);
    const told = deps.publicOrigin === undefined ? null : new URL(deps.publicOrigin);
    this.#publicOrigin = told && { origin: told.origin, scheme: told.protocol };
    this.#portDomain = deps.portDomain ?? ((): null => null);
    this.#admission = { forwarding, authenticate, apiOrigin };
    this.#pools = new InstancePools({
      dial: async (id, port, signal) => forwarding.dial(id, port, signal),
      limits: this.#limits,
      now: this.#now,
    });
    const { clientIdleMs, instanceIdleMs, tunnelIdleMs } = this.#limits;
    this.#idle = new IdleWatch([clientIdleMs, instanceIdleMs, tunnelIdleMs], this.#now);
    const onRevoked: Forwarding['onRevoked'] = (look) => forwarding.onRevoked(look);
    this.#revocation = new Revocation({ ...this.#admission, onRevoked, log: deps.log }, this.#limits.revocationMs);
    this.#http2 = new Http2Clients(this.#limits, (req, res, waits) => void this.#onRequest(req, res, waits));
    this.#server = this.#makeServer();
    this.#crowd = new Crowd(this.#server, this.#limits.connections, deps.log);
  }

  async listen(host: string, port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port, backlog: 1_024 }, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }

  /** `127.0.0.1:8081`, or `[::1]:8081`; throws when it does not listen. */
  get address(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the gateway does not listen on a TCP port');
    return `${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
  }

  /** Takes no more, lets running requests end within the grace, then cuts them and all tunnels. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    this.#http2.close();
    await this.#quiet(this.#limits.stopGraceMs);
    this.#crowd.cutShaking();
    this.#revocation.stop();
    this.#idle.stop();
    for (const client of this.#tunnels) client.destroy();
    this.#server.closeAllConnections();
    this.#http2.cut();
    this.#pools.stop();
    await closed;
  }

  async #quiet(graceMs: number): Promise<void> {
    if (this.#requests === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onQuiet = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #makeServer(): Server {
    const limits = this.#limits;
    const options: ServerOptions = {
      maxHeaderSize: limits.maxHeaderBytes,
      headersTimeout: limits.headMs,
      // A body may take as long as it takes.
      requestTimeout: 0,
      keepAliveTimeout: limits.idleClientMs,
      connectionsCheckingInterval: 5_000,
      keepAlive: true,
      keepAliveInitialDelay: 60_000,
      noDelay: true,
      insecureHTTPParser: false,
      shouldUpgradeCallback: (req) => req.method === 'GET' && req.headers.upgrade?.toLowerCase() === 'websocket',
    };
    const tls = this.#deps.tls && { ...this.#deps.tls, handshakeTimeout: limits.headMs };
    const server = serverOf(options, tls, (socket) => this.#http2.serve(socket));
    // Node would drop what is over the count in silence, checks included; the size bounds it already.
    server.maxHeadersCount = 0;
    server.on('request', (req, res) => void this.#onRequest(req, res, false));
    server.on('checkContinue', (req: ClientRequest, res: ClientResponse) => void this.#onRequest(req, res, true));
    server.on('checkExpectation', (req: ClientRequest, res: ClientResponse) => {
      sendAnswer(req, res, badRequest('of expectations only "100-continue" is known', 417), req.headers.accept ?? '');
    });
    server.on('upgrade', (req, socket, early) => void this.#onUpgrade(req, socket, early));
    server.on('connect', (_req, socket) => {
      socket.on('error', () => socket.destroy());
      if (!this.#isFree(socket)) return;
      sendRawAnswer(socket, badRequest('CONNECT is not passed on: send the request itself', 405));
    });
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => this.#onClientError(error, socket));
    return server;
  }

  #onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (socket.destroyed || (this.#connections.get(socket)?.responses.size ?? 0) > 0 || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    socket.on('error', () => socket.destroy());
    if (error.code === 'HPE_HEADER_OVERFLOW') {
      sendRawAnswer(socket, badRequest(`the headers are larger than ${this.#limits.maxHeaderBytes} bytes`, 431));
    } else if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
      sendRawAnswer(socket, badRequest('the head of the request took too long', 408));
    } else sendRawAnswer(socket, badRequest('the request is not well-formed HTTP/1.1'));
  }

  async #onRequest(req: ClientRequest, res: ClientResponse, expectsContinue: boolean): Promise<void> {
    const connection = this.#connectionOf(req.socket);
    connection.responses.add(res);
    this.#requests += 1;
    req.on('error', ignore);
    res.on('error', ignore);
    res.once('close', () => {
      connection.responses.delete(res);
      this.#requests -= 1;
      if (!this.#stopping) return;
      if (this.#requests === 0) this.#onQuiet?.();
      this.#server.closeIdleConnections();
    });
    if (this.#stopping) res.shouldKeepAlive = false;
    try {
      await this.#answer(req, res, expectsContinue, connection);
    } catch (error) {
      const known = unavailable(error);
      if (known === null) this.#deps.log.error({ err: error, method: req.method }, 'the gateway failed at a request');
      sendAnswer(req, res, known ?? internal(), req.headers.accept ?? '');
    }
  }

  #answer(
    req: ClientRequest,
    res: ClientResponse,
    expectsContinue: boolean,
    connection: Connection,
  ): Promise<void> | undefined {
    const method = req.method ?? 'GET';
    if (this.#crowd.isLate(req.socket)) {
      res.shouldKeepAlive = false;
      sendAnswer(req, res, crowded(), req.headers.accept ?? '');
      return undefined;
    }
    const head = readHead(req.rawHeaders, method, req.httpVersion);
    if (typeof head === 'string') {
      res.shouldKeepAlive = false;
      sendAnswer(req, res, badRequest(head), '');
      return undefined;
    }
    // Of a client that offers another protocol Node drops what came in one piece behind the head: nothing may be waited for there.
    if (head.connection.includes('upgrade')) res.shouldKeepAlive = false;
    const target = targetOf(head.host, req.url ?? '', this.#portDomain());
    switch (target.kind) {
      case 'refused':
        sendAnswer(req, res, badRequest(target.why), head.accept);
        return undefined;
      case 'home':
      case 'unknown':
        sendAnswer(req, res, this.#nothingHere(), head.accept);
        return undefined;
      case 'open': {
        const ownOrigin = this.#ownOrigin(senderOf(head, connection.peer), target.at !== null);
        return open(
          { forwarding: this.#deps.forwarding, apiOrigin: this.#admission.apiOrigin },
          { req, res, head, query: target.query, at: target.at, ownOrigin },
        );
      }
      case 'instance':
        return this.#answerFromInstance({ req, res, expectsContinue }, head, target, method, connection);
      default:
        return target satisfies never;
    }
  }

  async #answerFromInstance(
    client: Pick<Exchange, 'req' | 'res' | 'expectsContinue'>,
    head: Head,
    asked: InstanceTarget,
    method: string,
    { peer, credentials }: Connection,
  ): Promise<void> {
    const { req, res } = client;
    const sender = senderOf(head, peer);
    const shown = shownToken(asked, head);
    const { target } = shown;
    const ownOrigin = this.#ownOrigin(sender, target.surface === 'host');
    const visit: Visit = { head, credentials, target, shareToken: shown.token, method, upgrade: false, ownOrigin };
    const entered = this.#enter(visit, shown, await admit(this.#admission, visit));
    if ('refused' in entered) {
      sendAnswer(req, res, entered.refused, head.accept);
      return;
    }
    const { admitted, pool } = entered;
    const { place } = entered;
    const live: Live = { place, evidence: admitted.evidence, cut: () => breakOff(req, res), at: -1 };
    this.#revocation.watch(live);
    const done = this.#deps.forwarding.beginTraffic(place.instanceId, trafficKind(target, method, false));
    forward(pool, {
      ...client,
      head,
      target,
      admitted,
      host: sender.host,
      headers: inwardHeaders(head, target, admitted, sender, this.#deps.issuer),
      log: this.#deps.log,
      idle: this.#idle,
      limits: this.#limits,
      onDone: () => {
        done();
        this.#revocation.done(live);
        this.#pools.release(pool);
      },
    });
  }

  /**
   * Whether a connection that leaves HTTP has answered all that was asked before. If not it is ended, and so is each answer: Node gives the
   * connection away with those that wait for their turn, and they would never end.
   */
  #isFree(client: Duplex): boolean {
    const responses = [...(this.#connections.get(client)?.responses ?? [])];
    if (responses.length < 2 && responses.every((res) => res.writableEnded)) return true;
    for (const res of responses) res.destroy();
    client.destroy();
    return false;
  }

  async #onUpgrade(req: IncomingMessage, client: Duplex, early: Buffer): Promise<void> {
    client.on('error', () => client.destroy());
    if (!this.#isFree(client)) return;
    this.#tunnels.add(client);
    client.once('close', () => this.#tunnels.delete(client));
    try {
      await this.#answerUpgrade(req, client, early);
    } catch (error) {
      const known = unavailable(error);
      if (known === null) this.#deps.log.error({ err: error }, 'the gateway failed at an upgrade');
      sendRawAnswer(client, known ?? internal());
    }
  }

  async #answerUpgrade(req: IncomingMessage, client: Duplex, early: Buffer): Promise<void> {
    const head = readHead(req.rawHeaders, 'GET', req.httpVersion);
    if (typeof head === 'string') return sendRawAnswer(client, badRequest(head));
    if (this.#stopping) return sendRawAnswer(client, stopping());
    if (this.#crowd.isLate(req.socket)) return sendRawAnswer(client, crowded());
    if (hasBody(head)) return sendRawAnswer(client, badRequest('an upgrade has no body'));
    const asked = targetOf(head.host, req.url ?? '', this.#portDomain());
    if (asked.kind === 'refused') return sendRawAnswer(client, badRequest(asked.why));
    if (asked.kind !== 'instance') return sendRawAnswer(client, this.#nothingHere());
    const { peer, credentials } = this.#connectionOf(req.socket);
    const sender = senderOf(head, peer);
    const shown = shownToken(asked, head);
    const { target } = shown;
    const ownOrigin = this.#ownOrigin(sender, target.surface === 'host');
    const visit = { head, credentials, target, shareToken: shown.token, method: 'GET', upgrade: true, ownOrigin };
    const entered = this.#enter(visit, shown, await admit(this.#admission, visit));
    if ('refused' in entered) return sendRawAnswer(client, entered.refused, head.accept);
    const { admitted, place, pool } = entered;
    const live: Live = { place, evidence: lasting(admitted.evidence), cut: () => client.destroy(), at: -1 };
    this.#revocation.watch(live);
    const done = this.#deps.forwarding.beginTraffic(place.instanceId, trafficKind(target, 'GET', true));
    const headers = inwardHeaders(head, target, admitted, sender, this.#deps.issuer);
    const wish = { client, early, target, admitted, host: sender.host, accept: head.accept, headers };
    tunnel(pool, { ...wish, idle: this.#idle, limits: this.#limits }, () => {
      done();
      this.#revocation.done(live);
      this.#pools.release(pool);
    });
  }

  /** Let in, to an instance that runs, with a place among what runs at the same time. */
  #enter(
    visit: Visit,
    shown: Shown,
    admitted: Admission,
  ): { admitted: Admitted; place: Place; pool: PortPool } | { refused: Answer } {
    if ('refused' in admitted) return admitted;
    const { route, evidence } = admitted;
    const { target, method, upgrade, head } = visit;
    if (shown.inAddress && !upgrade) {
      if (evidence.kind === 'share')
        admitted.setCookie = shareCookie(evidence.token, isSecure(visit.ownOrigin), target);
      if (isNavigation(head, method)) return { refused: withoutToken(addressWithout(target), admitted.setCookie) };
    }
    if (target.slashed !== null && !upgrade && (method === 'GET' || method === 'HEAD')) {
      return { refused: slashed(target.slashed) };
    }
    if (!route.running) {
      this.#pools.forget(route.instanceId);
      return { refused: notRunning(route.status, this.#admission.apiOrigin()) };
    }
    // The id as the route has it: that of the target is cut from the address, and would hold on to all of it.
    const place: Place = { instanceId: route.instanceId, port: target.port, surface: target.surface };
    const pool = this.#pools.acquire(place);
    return pool === null ? { refused: tooMany() } : { admitted, place, pool };
  }

  #nothingHere(): Answer {
    return nothingHere(this.#admission.apiOrigin(), this.#portDomain());
  }

  #connectionOf(socket: Socket): Connection {
    let found = this.#connections.get(socket);
    if (found === undefined) {
      const from = { remoteAddress: socket.remoteAddress, encrypted: socket instanceof TLSSocket };
      found = {
        responses: new Set(),
        peer: peerOf(from, this.#trusted),
        credentials: new Credentials(this.#deps.issuer),
      };
      this.#connections.set(socket, found);
    }
    return found;
  }

  /** Of the gateway itself, or of a port's own host. */
  #ownOrigin(sender: Sender, isOfPort: boolean): string {
    if (this.#publicOrigin === null) return `${sender.proto}://${sender.host.toLowerCase()}`;
    const { origin, scheme } = this.#publicOrigin;
    return isOfPort ? `${scheme}//${sender.host.toLowerCase()}` : origin;
  }
}

/** With TLS a client chooses between HTTP/2 and HTTP/1.1; who does not choose speaks HTTP/1.1. */
function serverOf(
  options: ServerOptions,
  tls: (GatewayTls & { handshakeTimeout: number }) | undefined,
  serveHttp2: (socket: TLSSocket) => void,
): Server {
  if (tls === undefined) return createServer(options);
  const { handshakeTimeout } = tls;
  const ALPNProtocols = ['h2', 'http/1.1'];
  const server = createTlsServer({ ...options, ...tls.first, minVersion: 'TLSv1.2', ALPNProtocols, handshakeTimeout });
  tls.follow((pair) => server.setSecureContext({ ...pair, minVersion: 'TLSv1.2' }));
  // Else it is a 'clientError' as well, and would be answered in words that nobody without a handshake can be sent.
  server.removeAllListeners('tlsClientError');
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  const serveHttp1 = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket) => {
    if (socket.alpnProtocol === 'h2') serveHttp2(socket);
    else for (const serve of serveHttp1) Reflect.apply(serve, server, [socket]);
  });
  return server;
}

/** A notebook's page asks its API for ever and keeps WebSockets open, whether or not anybody sits before it. */
function trafficKind({ surface, prefix, inwardPath }: InstanceTarget, method: string, upgrade: boolean): TrafficKind {
  const asks = (method === 'GET' || method === 'HEAD') && inwardPath.startsWith('/api/', prefix.length);
  return surface === 'notebook' && (upgrade || asks) ? 'poll' : 'use';
}

function addressList(texts: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of texts) {
    const [address = '', bits] = text.split('/');
    const family = isIPv6(address) ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}
