/**
 * # HTTP edge
 *
 * Mounts the route table on fastify. Authorization precedes the body, then come JSON parsing,
 * validation, idempotency and the handler. Each error ends in `refusal-reply.ts`.
 */
import { createServer, type IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import { countingRows } from '../../async/rows-read.ts';
import { MAX_BODY_BYTES } from '../../contract/common.ts';
import { CHECK_BODY_BYTES, CHECK_PATHS } from '../../contract/proxy-check.ts';
import type { StreamRouteName } from '../../contract/routes.ts';
import type { Caller, Control, Log } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { makeTrustedProxies, takeForwarded, type AddressMatcher, type TrustedProxies } from '../address-list.ts';
import { MAX_HEAD_BYTES, PARSED_SHARE } from '../full-cookies.ts';
import { ConnectionLimit } from '../connection-limit.ts';
import { gatewayAddresses, isCheck, seenRequest, serveCheck } from '../proxy-check.ts';
import { mountAudit, type RecordRequest } from './audit-hook.ts';
import { makeBodyBudget } from './body-budget.ts';
import { readBody } from './body-reader.ts';
import { mountBookFile } from './money/book-downloads.ts';
import { mountConsole, readConsole } from './console-files.ts';
import { mountCors } from './cors.ts';
import { mountEventStream } from './delivery/event-stream.ts';
import { takeExpectations } from './expect-header.ts';
import { execSocket, terminalSocket } from './compute/instance-sockets.ts';
import { mountFile } from './storage/files.ts';
import { makeHandlers } from './handlers.ts';
import { makeListPages } from './list-pages.ts';
import { mountLoginPage, PASSKEY_SCRIPT } from './access/login-page.ts';
import { mountClearCookies } from './access/refusal-pages.ts';
import type { LoginProvider } from './access/login-provider.ts';
import { mountSignOn } from './access/single-sign-on.ts';
import { mountPasswordPage } from './access/password-page.ts';
import { makeLoginWatch } from './login-watch.ts';
import { mountPrefix } from './path-prefix.ts';
import { mountLogStream } from './compute/log-stream.ts';
import { makeAuthorize, mountJsonRoutes, type Authorize } from './mount.ts';
import { answerError, checkThen, PLAIN, type ErrorStyle } from './refusal-reply.ts';
import { makeReportQueue, type ReportQueue } from './report-queue.ts';
import { makeRequestIds } from './request.ts';
import { plainAddress } from './request-path.ts';
import {
  costOfBody,
  costOfFile,
  costOfRows,
  DEFAULT_ADDRESS_RATE,
  makeRequestRates,
  type RequestRates,
} from './request-rates.ts';
import { makeStreams } from './server-sent.ts';
import { mountRegisterPage } from './access/register-page.ts';
import { mountSpaceGuard } from './space-guard.ts';
import { mountServerPages } from './server-pages.ts';
import { mountStripeWebhook } from './money/stripe-webhook.ts';
import { watchSlowSenders, type SlowSenders } from './slow-senders.ts';
import { watchUnusedConnections, tlsServer } from './http-server.ts';
import { isSocketRequest, mountSockets } from './sockets.ts';
import { refuseUnknownRoutes, refuseWrongHeads, watchMethods, WireErrors, type AllowedMethods } from './unrouted.ts';
import { securityHeaders, STRICT_TRANSPORT } from '../security-headers.ts';
import type { Certificates } from '../tls-files.ts';

const DEFAULT_BODY_TIMEOUT_MS = 30_000;
/** Ends an incomplete head within 10 s: timeouts are checked every 2 s. */
const HEADERS_TIMEOUT_MS = 8_000;
const TIMEOUTS_CHECKED_EVERY_MS = 2_000;
const DEFAULT_CONNECTIONS = 20_000;
/** Node's own limit would include uploads; `slow-senders.ts` excludes them. */
const NO_LIMIT_MS = 0;
/** Above the 60 s idle timeout of usual proxies, so that they close the connection first. */
const KEEP_ALIVE_MS = 72_000;
const DEFAULT_SLOW_MS = 1_000;
const FORWARDED_FOR = 'x-forwarded-for';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null before authorization, and on open routes unless they log in. */
    caller: Caller | null;
    /** Takes the cost of a body that was read. Throws `too_many_requests`. */
    payForBody: ((bytes: number) => void) | null;
  }
  interface FastifyContextConfig {
    style?: ErrorStyle;
    /** Reads: changes pay by what they are. */
    paysForRows?: boolean;
  }
}

export interface ApiOptions {
  control: Control;
  log: Pick<Log, 'warn' | 'error'>;
  version: string;
  gatewayOrigin: string;
  /** Path of the API's URL before `/api` and the pages; empty: none. */
  prefix?: string;
  /** Parent domain of the hosts of ports. Default: none. */
  portDomain?: string | null;
  /** Absent: plain HTTP. */
  tls?: Certificates;
  secureCookies: boolean;
  /** Folder of the built console; null or without a build: a page that names the API. */
  consoleFolder?: string | null;
  /** Provider of OpenID Connect; null: passwords only. */
  loginProvider?: LoginProvider | null;
  /** Public origins of this API behind a proxy that changes the Host header. */
  ownOrigins?: readonly string[];
  /** Host names of this API besides `localhost` and IP addresses. */
  hosts?: readonly string[];
  /** Origins of other sites whose pages may call this API, with the cookie. */
  corsOrigins?: readonly string[];
  /** Addresses and CIDR ranges of proxies with a trusted `X-Forwarded-For`. */
  trustedProxies?: string[];
  connections?: number;
  /** Requests a second of one client address. */
  addressRate?: number;
  /** Monotonic milliseconds, by which buckets fill; default: the process's. */
  rateClock?: (() => number) | undefined;
  /** Sends `Strict-Transport-Security`. */
  strictTransport?: boolean;
  bodyTimeoutMs?: number;
  /** Longest pause within the transfer of a file. */
  fileStalledMs?: number;
  slowMs?: number;
  maxPageCacheBytes?: number;
  /** Interval of heartbeats and login checks. */
  eventBeatMs?: number;
  socketBeatMs?: number;
}

export function makeApi(options: ApiOptions): FastifyInstance {
  const { control, log, secureCookies, slowMs = DEFAULT_SLOW_MS } = options;
  const proxies = makeTrustedProxies(options.trustedProxies ?? []);
  const isProxy = proxies.includes;
  const connectionLimit = new ConnectionLimit({
    listener: 'API',
    connections: options.connections ?? DEFAULT_CONNECTIONS,
    isProxy,
    log,
  });
  const rates = makeRequestRates({
    perAddress: options.addressRate ?? DEFAULT_ADDRESS_RATE,
    perAccount: (accountId) => control.quotas.requestsPerSecond(accountId),
    isProxy,
    now: options.rateClock,
  });
  const { app, allowed } = makeServer(options, { connectionLimit, rates, proxies });
  const bodyTimeoutMs = options.bodyTimeoutMs ?? DEFAULT_BODY_TIMEOUT_MS;
  const slowSenders = watchSlowSenders(app, {
    limitMs: bodyTimeoutMs,
    checkedEveryMs: Math.min(TIMEOUTS_CHECKED_EVERY_MS, bodyTimeoutMs),
  });
  const closeUnused = watchUnusedConnections(app.server);
  app.addHook('preClose', async () => closeUnused());
  const recordRequest = mountAudit(app, { audit: control.audit });
  const corsOrigins = new Set(options.corsOrigins);
  const others = gatewayAddresses(options);
  mountProxyCheck(app, { isProxy, rates, others });
  refuseWrongHeads(app, new Set(options.hosts));
  mountPrefix(app, options.prefix ?? '');
  mountCors(app, corsOrigins, allowed);
  mountSpaceGuard(app, control);
  const consoleFiles = options.consoleFolder ? readConsole(options.consoleFolder, others) : null;
  refuseUnknownRoutes(app, { built: consoleFiles, allowed });

  const pages = makeListPages({
    versionOf: (accountId) => control.versionOf(accountId),
    ...(options.maxPageCacheBytes === undefined ? {} : { maxBytes: options.maxPageCacheBytes }),
  });
  const apiOrigins = new Set(options.ownOrigins);
  const ownOrigins = new Set([...apiOrigins, ...corsOrigins]);
  const authorize = makeAuthorize(control.access, ownOrigins, connectionLimit, rates);
  const handlers = makeHandlers(control, pages, { secureCookies, issuer: options.loginProvider?.issuer ?? null });
  const { authenticate } = control.access;
  const reports = makeReportQueue();
  mountJsonRoutes(app, { handlers, reports, authorize, authenticate, ownOrigins, apiOrigins, log, slowMs });
  mountStreams(app, options, { reports, authorize, slowSenders, recordRequest });
  if (consoleFiles) mountConsole(app, consoleFiles, rates);
  mountServerPages(app, { ...options, rates, hasConsole: consoleFiles !== null });
  mountClearCookies(app, options);
  mountLoginPage(app, { ...options, hasPasskeyScript: consoleFiles?.files.has(PASSKEY_SCRIPT) ?? false });
  mountPasswordPage(app, options);
  mountRegisterPage(app, options);
  mountSignOn(app, options);
  mountStripeWebhook(app, options);
  return app;
}

/** Before hosts are refused: it says which host a proxy passes. */
function mountProxyCheck(
  app: FastifyInstance,
  { isProxy, rates, others }: { isProxy: AddressMatcher; rates: RequestRates; others: string[] },
): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (request.url !== CHECK_PATHS.body) return done();
    checkThen(() => rates.takeOfAddress(request.ip, reply, costOfFile(CHECK_BODY_BYTES)), done);
  });
  app.addHook('onRequest', (request, reply, done) => {
    if (!isCheck(request.url)) return done();
    const { raw, protocol, headers, ip } = request;
    reply.hijack();
    const isTrusted = isProxy(raw.socket.remoteAddress ?? '');
    const seen = seenRequest({
      listener: 'api',
      address: ip,
      scheme: protocol,
      host: headers.host,
      tls: raw.socket instanceof TLSSocket,
      isForwarded: (headers[FORWARDED_FOR] ?? (isTrusted ? undefined : headers.forwarded)) !== undefined,
      isTrusted,
      isProxy,
    });
    serveCheck(raw, reply.raw, request.url, { ...seen, others });
  });
}

interface Clients {
  connectionLimit: ConnectionLimit;
  rates: RequestRates;
  proxies: TrustedProxies;
}

function makeServer(
  { tls, log, strictTransport = false, prefix = '' }: ApiOptions,
  { connectionLimit, rates, proxies }: Clients,
): { app: FastifyInstance; allowed: AllowedMethods } {
  const requestId = makeRequestIds();
  const wireErrors = new WireErrors(
    () => requestId(undefined),
    prefix,
    (path) => allowed(path),
  );
  const serverOptions = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUTS_CHECKED_EVERY_MS,
    maxHeaderSize: PARSED_SHARE * MAX_HEAD_BYTES,
    requestTimeout: NO_LIMIT_MS,
    requireHostHeader: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    shouldUpgradeCallback: (request: IncomingMessage) => isSocketRequest(request, prefix),
  };
  const app = fastify({
    bodyLimit: MAX_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_HEAD_BYTES },
    serverFactory(handler) {
      const server = tls ? tlsServer(serverOptions, tls, handler) : createServer(serverOptions, handler);
      connectionLimit.watch(server);
      wireErrors.watch(server);
      return server;
    },
    rewriteUrl: ({ url = '' }) => plainAddress(url, prefix),
    genReqId({ headers, socket }) {
      if (proxies.includes(socket.remoteAddress ?? '')) takeForwarded(headers, proxies);
      return requestId(headers['x-request-id']);
    },
    trustProxy: proxies.includes,
    logger: false,
    clientErrorHandler: (error, socket) => wireErrors.answer(error, socket),
    frameworkErrors: (error, request, reply) => answerError(error, request, reply, { log, style: PLAIN }),
  });
  const allowed = watchMethods(app);
  takeExpectations(app.server);
  const headers = strictTransport
    ? { ...securityHeaders, [STRICT_TRANSPORT[0]]: STRICT_TRANSPORT[1] }
    : securityHeaders;
  app.addHook('onRequest', ({ ip }, reply, done) => {
    reply.headers(headers);
    checkThen(() => rates.takeOfAddress(ip, reply), done);
  });
  app.addHook('onRequest', ({ raw }, reply, done) => {
    if (connectionLimit.admits(raw.socket)) return done();
    reply.header('connection', 'close');
    done(tooManyConnections());
  });
  app.decorateRequest('caller', null);
  app.removeAllContentTypeParsers();
  const budget = makeBodyBudget();
  app.decorateRequest('payForBody', null);
  app.addHook('preParsing', (request, reply, payload, done) => {
    request.payForBody = (bytes) => {
      const { caller } = request;
      const cost = costOfBody(bytes);
      if (cost === 0) return;
      if (caller === null) rates.takeOfAddress(request.ip, reply, cost);
      else rates.takeOfAccount(caller.accountId, cost, reply);
    };
    done(null, payload);
  });
  // Raw bytes: parsing follows authorization. A refused body is paid like any other.
  // By name, too: fastify would parse the header again at each request.
  app.addContentTypeParser(['application/json', '*'], (request, payload, done) => {
    const { bodyLimit, config } = request.routeOptions;
    const limits = { wireBytes: bodyLimit, jsonBytes: config.jsonBytes, budget };
    readBody(request, payload, limits, (error, bytes, readBytes) => {
      try {
        request.payForBody?.(readBytes);
        done(error, bytes);
      } catch (refusal) {
        done(refusal instanceof Error ? refusal : error);
      }
    });
  });
  // Not earlier: events of the body lose the context.
  app.addHook('preHandler', (request, reply, done) => {
    if (!request.routeOptions.config.paysForRows) return done();
    let rows = 0;
    const onRows = (more: number): void => {
      const { caller } = request;
      const cost = costOfRows(rows + more) - costOfRows(rows);
      rows += more;
      if (cost > 0 && caller !== null) rates.chargeAccount(caller.accountId, cost, reply);
    };
    countingRows(onRows, done);
  });
  app.setErrorHandler((error, request, reply) =>
    answerError(error, request, reply, { log, style: request.routeOptions.config.style ?? PLAIN }),
  );
  return { app, allowed };
}

const tooManyConnections = (): Refusal => {
  const message =
    'this server has as many client connections as it allows, in total or from your address: try again in a moment';
  return new Refusal('unavailable', message, { retryAfterS: 5 });
};

function mountStreams(
  app: FastifyInstance,
  { control, log, prefix, fileStalledMs: stalledMs, eventBeatMs, socketBeatMs }: ApiOptions,
  {
    reports,
    authorize,
    slowSenders,
    recordRequest,
  }: { reports: ReportQueue; authorize: Authorize; slowSenders: SlowSenders; recordRequest: RecordRequest },
): void {
  const logins = makeLoginWatch(app, control);
  const streams = makeStreams(app, { logins, log, beatMs: eventBeatMs });
  const parts = { control, reports, authorize, recordRequest, logins, streams, slowSenders, log, stalledMs };
  const mountSocket = mountSockets(app, parts, { heartbeatMs: socketBeatMs, prefix });
  const mountByName: Record<StreamRouteName, () => void> = {
    events: () => mountEventStream(app, parts),
    followLogs: () => mountLogStream(app, parts),
    openExec: () => mountSocket(execSocket(control, log)),
    openTerminal: () => mountSocket(terminalSocket(control)),
    downloadFile: () => mountFile(app, parts, 'downloadFile'),
    headFile: () => mountFile(app, parts, 'headFile'),
    uploadFile: () => mountFile(app, parts, 'uploadFile'),
    deleteFile: () => mountFile(app, parts, 'deleteFile'),
    statementCsv: () => mountBookFile(app, parts, 'statementCsv'),
    statementXlsx: () => mountBookFile(app, parts, 'statementXlsx'),
    statementPage: () => mountBookFile(app, parts, 'statementPage'),
    focusCsv: () => mountBookFile(app, parts, 'focusCsv'),
    focusCsvOfAll: () => mountBookFile(app, parts, 'focusCsvOfAll'),
  };
  for (const mountRoute of Object.values(mountByName)) mountRoute();
}
