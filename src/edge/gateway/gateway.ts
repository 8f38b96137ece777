/**
 * # The gateway
 *
 * The reverse proxy to instances: `/notebook/<instanceId>/…` is the notebook,
 * `/forward/<instanceId>/<port>/…` any other port. A request passes these files:
 *
 * 1. `head.ts` parses the head and refuses ambiguous ones; `routing.ts` parses the address.
 * 2. `admission.ts` authorizes, by `credentials.ts`, `cookies.ts`, `share-token.ts`;
 * `open-link.ts` trades links.
 * 3. `instance-pools.ts` provides a connection; `upstream-headers.ts` writes the request head.
 * 4. `forward.ts` pipes requests, `upgrade.ts` WebSockets; `downstream-headers.ts` writes the
 * response head.
 * 5. `answers.ts` answers when no instance can; `revocation.ts` cuts what lost its access.
 *
 * HTTP/2 clients pass the same way: `http2.ts` maps streams to `client-exchange.ts`.
 * Behavior and limits: `docs/reference/gateway.md`.
 */
import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Forwarding } from '../../control/index.ts';
import {
  authorize,
  detachedCopy,
  type AccessGrant,
  type Admission,
  type AdmissionDeps,
  type AuthRequest,
} from './admission.ts';
import {
  badRequest,
  tooManyConnections,
  internal,
  notRunning,
  nothingHere,
  sendAnswer,
  sendRawAnswer,
  redirectBelow,
  redirectToSlash,
  stopping,
  tooMany,
  unavailable,
  opening,
  crossSite,
  headTooLarge,
  type Answer,
} from './answers.ts';
import { targetOfPage } from './asking-page.ts';
import { cookieOfApp, isSecure, shareCookie } from './cookies.ts';
import { abort, type ClientRequest, type ClientResponse } from './client-exchange.ts';
import { Credentials } from './credentials.ts';
import { forward, type Exchange } from './forward.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { hasBody, readHead, type Head } from './head.ts';
import { Http2Clients } from './http2.ts';
import { IdleTimeouts } from './idle-timeouts.ts';
import { InstancePools, type PortPool } from './instance-pools.ts';
import {
  clientAddressOf,
  peerOf,
  seenOf,
  senderOf,
  upstreamHeaders,
  type Peer,
  type Sender,
} from './upstream-headers.ts';
import { defaultGatewayLimits, type GatewayLimits } from './gateway-limits.ts';
import { LabAssets } from './lab-assets.ts';
import { addressOf, answerClientError, makeListener } from './listener.ts';
import { dialPort } from './loopback.ts';
import { answerBar } from './notebook-bar.ts';
import { open, visitorOf } from './open-link.ts';
import { clearCookies, makeOwnOrigin, type OwnOrigin } from './own-origin.ts';
import { sandboxNotice } from './sandbox-notice.ts';
import { addressWithout, isNavigation, takeShareToken } from './share-token.ts';
import { Revocation, type OpenAccess } from './revocation.ts';
import { authorizeStarted, startPage } from './start-page.ts';
import { targetOf, trafficKind, type InstanceTarget, type PortAddress } from './routing.ts';
import { isFree, tunnel } from './upgrade.ts';
import { targetOfButton, WAKE_PATH } from './wake-answers.ts';
import { Waking } from './waking.ts';
import { atTime } from '../at-time.ts';
import { makeTrustedProxies, type TrustedProxies } from '../address-list.ts';
import { CLEAR_PATH } from '../full-cookies.ts';
import { ConnectionLimit } from '../connection-limit.ts';
import { isCheck, isCheckSocket, openAndClose, serveCheck } from '../proxy-check.ts';

/** An authorized request with a slot of its instance's concurrency limit. */
interface Entered extends Pick<Exchange, 'authorized' | 'target' | 'host' | 'headers' | 'notice'> {
  portAddress: PortAddress;
  pool: PortPool;
}

type Asked = Pick<AuthRequest, 'head' | 'method' | 'upgrade' | 'target' | 'shareToken'>;
type Incoming = Pick<Asked, 'head' | 'method' | 'upgrade'>;

interface Connection {
  /** Responses in progress, with their requests; nothing else may write to the socket meanwhile. */
  exchanges: Map<ClientResponse, ClientRequest>;
  peer: Peer;
  credentials: Credentials;
}

/** The 'close' event of the response reports a lost client. */
const ignore = (): void => {};

const BACKLOG = 1_024;

export const makeGateway = (deps: GatewayDeps): Gateway => new Gateway(deps);

export class Gateway {
  readonly #deps: GatewayDeps;
  readonly #limits: GatewayLimits;
  readonly #elapsed: () => number;
  readonly #proxies: TrustedProxies;
  readonly #ownOrigin: OwnOrigin;
  readonly #portDomain: string | null;
  readonly #admission: AdmissionDeps;
  readonly #server: Server;
  readonly #connectionLimit: ConnectionLimit;
  readonly #http2: Http2Clients;
  readonly #labAssets: LabAssets;
  readonly #pools: InstancePools;
  readonly #revocation: Revocation;
  readonly #waking: Waking;
  readonly #idle: IdleTimeouts;
  readonly #tunnels = new Set<Duplex>();
  readonly #connections = new WeakMap<Duplex, Connection>();
  #requests = 0;
  #stopping = false;
  #onQuiet: (() => void) | null = null;

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.#limits = { ...defaultGatewayLimits, ...deps.limits };
    this.#elapsed = deps.elapsed ?? (() => performance.now());
    const { forwarding, authenticate, apiUrl } = deps;
    this.#proxies = makeTrustedProxies(deps.trustedProxies ?? []);
    this.#ownOrigin = makeOwnOrigin(deps.publicOrigin ?? null);
    this.#portDomain = deps.portDomain ?? null;
    this.#admission = { forwarding, authenticate, apiUrl };
    this.#pools = new InstancePools({
      dial: async (to, signal) => dialPort(forwarding, to, signal),
      limits: this.#limits,
      elapsed: this.#elapsed,
    });
    const { clientIdleMs, instanceIdleMs, tunnelIdleMs, wakeHoldMs: holdMs } = this.#limits;
    this.#waking = new Waking({ forwarding, wake: deps.wake, apiUrl, holdMs, elapsed: this.#elapsed });
    this.#idle = new IdleTimeouts([clientIdleMs, instanceIdleMs, tunnelIdleMs], this.#elapsed);
    this.#labAssets = new LabAssets({
      folder: deps.toolsFolder ?? null,
      elapsed: this.#elapsed,
      idle: this.#idle,
      clientIdleMs,
    });
    const onRevoked: Forwarding['onRevoked'] = (look) => forwarding.onRevoked(look);
    this.#revocation = new Revocation({ ...this.#admission, onRevoked, log: deps.log }, this.#limits.revocationMs);
    this.#http2 = new Http2Clients(this.#limits, (req, res, waits) => void this.#onRequest(req, res, waits));
    this.#server = this.#makeServer();
    const { connections } = this.#limits;
    this.#connectionLimit = new ConnectionLimit({
      listener: 'gateway',
      connections,
      isProxy: this.#proxies.includes,
      log: deps.log,
    });
    this.#connectionLimit.watch(this.#server);
  }

  /** Takes over the port of a bound server, which must not be used or closed afterwards. */
  async listenOn(bound: NetServer): Promise<void> {
    await once(this.#server.listen(bound, BACKLOG), 'listening');
  }

  /** `127.0.0.1:8081` or `[::1]:8081`. Throws before `listenOn`. */
  get address(): string {
    return addressOf(this.#server);
  }

  /** Refuses new requests, waits `stopGraceMs` for running ones, then cuts them and all tunnels. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    this.#http2.close();
    this.#waking.stop();
    await this.#quiet(this.#limits.stopGraceMs);
    this.#connectionLimit.cutShaking();
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
    const server = makeListener(this.#limits, this.#deps.tls, (socket) => this.#http2.serve(socket));
    server.on('request', (req, res) => void this.#onRequest(req, res, false));
    server.on('checkContinue', (req: ClientRequest, res: ClientResponse) => void this.#onRequest(req, res, true));
    server.on('checkExpectation', (req: ClientRequest, res: ClientResponse) => {
      sendAnswer(
        req,
        res,
        badRequest('the header Expect must be "100-continue": send it so, or leave the header out', 417),
        req.headers.accept ?? '',
      );
    });
    server.on('upgrade', (req, socket, early) => void this.#onUpgrade(req, socket, early));
    server.on('connect', (_req, socket) => {
      socket.on('error', () => socket.destroy());
      if (!this.#isFree(socket)) return;
      sendRawAnswer(socket, badRequest('CONNECT is not forwarded: send the request itself', 405));
    });
    server.on('clientError', (error, socket) => {
      const pending = this.#connections.get(socket)?.exchanges ?? new Map<ClientResponse, ClientRequest>();
      answerClientError(socket, error, pending, this.#limits.maxHeaderBytes);
    });
    return server;
  }

  async #onRequest(req: ClientRequest, res: ClientResponse, expectsContinue: boolean): Promise<void> {
    const connection = this.#connectionOf(req.socket);
    connection.exchanges.set(res, req);
    this.#requests += 1;
    req.on('error', ignore);
    res.on('error', ignore);
    res.once('close', () => {
      connection.exchanges.delete(res);
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
      if (known === null)
        this.#deps.log.error({ err: error, method: req.method }, 'the gateway failed to handle a request');
      sendAnswer(req, res, known ?? internal(), req.headers.accept ?? '');
    }
  }

  async #answer(
    req: ClientRequest,
    res: ClientResponse,
    expectsContinue: boolean,
    connection: Connection,
  ): Promise<void> {
    const method = req.method ?? 'GET';
    if (!this.#connectionLimit.admits(req.socket)) {
      res.shouldKeepAlive = false;
      return sendAnswer(req, res, tooManyConnections(), req.headers.accept ?? '');
    }
    const head = readHead(req.rawHeaders, method, req.httpVersion);
    if (typeof head === 'string') {
      res.shouldKeepAlive = false;
      return sendAnswer(req, res, badRequest(head), '');
    }
    // Node drops bytes behind a head that offers another protocol: do not wait for them.
    if (head.connection.includes('upgrade')) res.shouldKeepAlive = false;
    if (method === 'POST' && req.url === CLEAR_PATH) {
      const sender = senderOf(head, connection.peer, this.#proxies);
      return sendAnswer(req, res, clearCookies(head, sender, this.#ownOrigin, this.#admission.apiUrl), head.accept);
    }
    if (method === 'POST' && req.url?.startsWith(`${WAKE_PATH}?`))
      return sendAnswer(req, res, await this.#wakeByButton(head, req.url, connection), head.accept);
    if (isCheck(req.url ?? ''))
      return serveCheck(req, res, req.url ?? '', seenOf(head, connection.peer, this.#proxies));
    if (head.bytes > this.#limits.maxHeaderBytes)
      return sendAnswer(req, res, headTooLarge(this.#limits.maxHeaderBytes), head.accept);
    const target = targetOf(head.host, req.url ?? '', this.#portDomain);
    switch (target.kind) {
      case 'refused':
        return sendAnswer(req, res, badRequest(target.why), head.accept);
      case 'unknown': {
        const page = await this.#pageOfOwner(req.url ?? '', { head, method, upgrade: false }, connection);
        return sendAnswer(req, res, page === null ? this.#nothingHere() : redirectBelow(page), head.accept);
      }
      case 'open': {
        const sender = senderOf(head, connection.peer, this.#proxies);
        const ownOrigin = this.#ownOrigin(sender, target.at !== null);
        const from = clientAddressOf(sender, this.#proxies);
        const { query, at } = target;
        const deps = { ...this.#admission, forwarding: this.#deps.forwarding, portDomain: this.#portDomain };
        const answer = await open(deps, { method, head, query, target: at, ownOrigin, from });
        return sendAnswer(req, res, answer, head.accept);
      }
      case 'lab':
        return this.#labAssets.answer(req, res, head, target.path);
      case 'bar': {
        const sender = senderOf(head, connection.peer, this.#proxies);
        const asked = { head, method, upgrade: false, target: target.of, shareToken: null };
        const admission = await this.#authorize(asked, connection, sender);
        const ownOrigin = this.#ownOrigin(sender, false);
        const from = clientAddressOf(sender, this.#proxies);
        return answerBar(this.#deps, { req, res, head, verb: target.verb, admission, ownOrigin, from });
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
    connection: Connection,
  ): Promise<void> {
    const { req, res } = client;
    const isGone = (): boolean => res.destroyed;
    const entered = await this.#enter({ head, asked, method, upgrade: false, isGone }, connection);
    if ('refused' in entered) return sendAnswer(req, res, entered.refused, head.accept);
    const { pool, authorized } = entered;
    const connected = { socket: req.socket, cut: () => abort(req, res) };
    const onDone = this.#begin(entered, authorized.accessGrant, connected, method, false);
    const shared = { log: this.#deps.log, idle: this.#idle, limits: this.#limits };
    forward(pool, { ...client, ...entered, ...shared, ofOwner: this.#deps, onDone, head });
  }

  #isFree(client: Duplex): boolean {
    return isFree(client, [...(this.#connections.get(client)?.exchanges.keys() ?? [])]);
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
      if (known === null) this.#deps.log.error({ err: error }, 'the gateway failed to handle an upgrade');
      sendRawAnswer(client, known ?? internal());
    }
  }

  async #answerUpgrade(req: IncomingMessage, client: Duplex, early: Buffer): Promise<void> {
    const head = readHead(req.rawHeaders, 'GET', req.httpVersion);
    if (typeof head === 'string') return sendRawAnswer(client, badRequest(head));
    if (this.#stopping) return sendRawAnswer(client, stopping());
    if (!this.#connectionLimit.admits(req.socket)) return sendRawAnswer(client, tooManyConnections());
    if (isCheckSocket(req.url ?? '')) return openAndClose(client, req.headers['sec-websocket-key']);
    if (head.bytes > this.#limits.maxHeaderBytes)
      return sendRawAnswer(client, headTooLarge(this.#limits.maxHeaderBytes));
    if (hasBody(head)) return sendRawAnswer(client, badRequest('an upgrade has no body'));
    const connection = this.#connectionOf(req.socket);
    const named = targetOf(head.host, req.url ?? '', this.#portDomain);
    if (named.kind === 'refused') return sendRawAnswer(client, badRequest(named.why));
    const incoming = { head, method: 'GET', upgrade: true };
    const asked = named.kind === 'unknown' ? await this.#pageOfOwner(req.url ?? '', incoming, connection) : named;
    if (asked?.kind !== 'instance') return sendRawAnswer(client, this.#nothingHere());
    const entered = await this.#enter({ ...incoming, asked, isGone: () => client.destroyed }, connection);
    if ('refused' in entered) return sendRawAnswer(client, entered.refused, head.accept);
    const { pool, target, authorized, host, headers } = entered;
    const grant = detachedCopy(authorized.accessGrant);
    const onDone = this.#begin(entered, grant, { socket: req.socket, cut: () => client.destroy() }, 'GET', true);
    tunnel(
      pool,
      { client, target, authorized, host, headers, early, accept: head.accept, idle: this.#idle, limits: this.#limits },
      onDone,
    );
  }

  /** Watches an authorized exchange until the returned function is called. */
  #begin(
    { portAddress, pool, target, authorized: { route } }: Entered,
    accessGrant: AccessGrant,
    { socket, cut }: { socket: Socket; cut: () => void },
    method: string,
    upgrade: boolean,
  ) {
    // Visitors without an account count as their host.
    const account = 'accountId' in accessGrant ? accessGrant.accountId : route.ownerId;
    if (accessGrant.kind !== 'public') this.#connectionLimit.markLoggedIn(socket, account);
    const endExchange = this.#connectionLimit.beginExchange(socket, account);
    const live: OpenAccess = { portAddress, accessGrant, cut, at: -1 };
    this.#revocation.watch(live);
    const expiresAtMs = 'limits' in accessGrant ? accessGrant.limits?.expiresAtMs : null;
    const endTimer = expiresAtMs ? atTime(expiresAtMs, cut) : null;
    const endTraffic = this.#deps.forwarding.beginTraffic(portAddress.instanceId, trafficKind(target, method, upgrade));
    return (): void => {
      endTimer?.();
      endExchange();
      endTraffic();
      this.#revocation.done(live);
      this.#pools.release(pool);
    };
  }

  /** Authorizes, checks that the instance runs, and acquires a slot of its concurrency limit. */
  async #enter(
    { asked, isGone, ...incoming }: Incoming & { asked: InstanceTarget; isGone: () => boolean },
    connection: Connection,
    wasHeld = false,
  ): Promise<Entered | { refused: Answer }> {
    const { head, method, upgrade } = incoming;
    const sender = senderOf(head, connection.peer, this.#proxies);
    const shown = takeShareToken(asked, head);
    const { target } = shown;
    const ownOrigin = this.#ownOrigin(sender, target.mount === 'host');
    const authorized = await this.#authorize({ ...incoming, target, shareToken: shown.token }, connection, sender);
    if ('refused' in authorized) return authorized;
    const { route, accessGrant } = authorized;
    if (shown.inAddress && !upgrade) {
      if (accessGrant.kind === 'share')
        authorized.setCookie = shareCookie(accessGrant.token, isSecure(ownOrigin), target);
      if (isNavigation(head, method)) return { refused: opening('page', addressWithout(target), authorized.setCookie) };
    }
    if (target.withSlash !== null && !upgrade && (method === 'GET' || method === 'HEAD')) {
      return { refused: redirectToSlash(target.withSlash) };
    }
    if (authorized.owner && isNavigation(head, method))
      authorized.setCookie ??= cookieOfApp(head.cookies, target, isSecure(ownOrigin));
    const page = await startPage(this.#labAssets, authorized, { ...incoming, target }, this.#admission.apiUrl);
    if (page !== null) return { refused: page };
    if (!route.running) {
      this.#pools.closeInstance(route.instanceId);
      if (wasHeld) return { refused: notRunning(route.status, this.#admission.apiUrl) };
      const visitor = visitorOf({ head, from: clientAddressOf(sender, this.#proxies) });
      const answer = await this.#waking.answer({ ...incoming, target, authorized, visitor, isGone });
      // Access may have ended meanwhile.
      return answer === null ? this.#enter({ asked, isGone, ...incoming }, connection, true) : { refused: answer };
    }
    // Uses the route's id: the parsed one is a slice that would retain the whole URL.
    const portAddress: PortAddress = { instanceId: route.instanceId, port: target.port, mount: target.mount };
    const pool = this.#pools.acquire(portAddress, route);
    if (pool === null) return { refused: tooMany() };
    if (wasHeld) pool.patientUntilMs = this.#elapsed() + this.#limits.wakeHoldMs;
    const { apiUrl } = this.#admission;
    const notice = sandboxNotice({ head, method, authorized, target, apiUrl, ownOrigin });
    const headers = upstreamHeaders({ head, target, authorized, sender, isPlain: notice !== null }, this.#deps.issuer);
    if (target.mount === 'notebook') headers.push(...this.#labAssets.offer());
    return { authorized, portAddress, pool, target, host: sender.host, headers, notice };
  }

  #authorize(asked: Asked, { credentials }: Connection, sender: Sender): Promise<Admission> {
    const ownOrigin = this.#ownOrigin(sender, asked.target.mount === 'host');
    const from = (): string => clientAddressOf(sender, this.#proxies);
    const admit = () => authorize(this.#admission, { ...asked, credentials, ownOrigin, from });
    return authorizeStarted(this.#labAssets, asked, admit, () => this.#stopping);
  }

  async #wakeByButton(head: Head, url: string, connection: Connection): Promise<Answer> {
    const target = targetOfButton(head.host, url, this.#portDomain);
    if (target === null) return this.#nothingHere();
    const sender = senderOf(head, connection.peer, this.#proxies);
    if (head.origin !== this.#ownOrigin(sender, target.mount === 'host')) return crossSite();
    const asked = { head, method: 'POST', upgrade: false, target, shareToken: head.shareToken };
    const authorized = await this.#authorize(asked, connection, sender);
    const visitor = visitorOf({ head, from: clientAddressOf(sender, this.#proxies) });
    return 'refused' in authorized ? authorized.refused : this.#waking.byButton({ authorized, target, visitor });
  }

  async #pageOfOwner(path: string, incoming: Incoming, connection: Connection): Promise<InstanceTarget | null> {
    const sender = senderOf(incoming.head, connection.peer, this.#proxies);
    const ownOrigin = this.#ownOrigin(sender, false);
    const target = targetOfPage({ ...incoming, path, ownOrigin, portDomain: this.#portDomain });
    if (target === null) return null;
    const authorized = await this.#authorize({ ...incoming, target, shareToken: null }, connection, sender);
    return 'refused' in authorized || !authorized.owner ? null : target;
  }

  #nothingHere(): Answer {
    return nothingHere(this.#admission.apiUrl, this.#portDomain);
  }

  #connectionOf(socket: Socket): Connection {
    let found = this.#connections.get(socket);
    if (found === undefined) {
      const credentials = new Credentials(this.#deps.issuer);
      found = { exchanges: new Map(), peer: peerOf(socket, this.#proxies.includes), credentials };
      this.#connections.set(socket, found);
    }
    return found;
  }
}
