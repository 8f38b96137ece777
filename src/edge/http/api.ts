/**
 * # HTTP edge
 *
 * Mounts the route table on fastify. Authorization precedes the body, then come JSON parsing,
 * validation, idempotency and the handler. Each error ends in `refusal-reply.ts`.
 */
import { createServer } from 'node:http';
import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MAX_BODY_BYTES } from '../../contract/common.ts';
import { BASE_PATH, methodsOf, type StreamRouteName } from '../../contract/routes.ts';
import type { Caller, Control, Log } from '../../control/index.ts';
import { mountEventStream } from './event-stream.ts';
import { execSocket, terminalSocket } from './instance-sockets.ts';
import { mountFile } from './files.ts';
import { accountHandlers, openHandlers } from './handlers/account.ts';
import { catalogHandlers } from './handlers/catalog.ts';
import type { Handlers } from './handlers/handler.ts';
import { insideHandlers } from './handlers/inside.ts';
import { instanceHandlers } from './handlers/instances.ts';
import { storageHandlers } from './handlers/storage.ts';
import { makeListPages, type ListPages } from './list-pages.ts';
import { makeLoginWatch } from './login-watch.ts';
import { mountLogStream } from './log-stream.ts';
import { makeAuthorize, mountJsonRoutes, setCommonHeaders, type Authorize } from './mount.ts';
import { answerError, errorBody, pathOf, PLAIN, type ErrorStyle } from './refusal-reply.ts';
import { makeRequestIds } from './request.ts';
import { makeStreams } from './server-sent.ts';
import { mountServerPages, serverPagePaths } from './server-pages.ts';
import { watchSlowSenders, type SlowSenders } from './slow-senders.ts';
import { watchUnusedConnections, tlsServer, answerWireError, MAX_HEADER_BYTES } from './http-server.ts';
import { isSocketRequest, mountSockets } from './sockets.ts';
import type { Certificates } from '../tls-files.ts';

/** Applies to all bodies but files. */
const DEFAULT_BODY_TIMEOUT_MS = 30_000;
const HEADERS_TIMEOUT_MS = 10_000;
const TIMEOUTS_CHECKED_EVERY_MS = 2_000;
/** Node's own limit would include uploads; `slow-senders.ts` excludes them. */
const NO_LIMIT_MS = 0;
/** Above the 60 s idle timeout of usual proxies, so that they close the connection first. */
const KEEP_ALIVE_MS = 72_000;
const DEFAULT_SLOW_MS = 1_000;

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on open routes. Set before the body is read. */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    style?: ErrorStyle;
  }
}

export interface ApiOptions {
  control: Control;
  log: Pick<Log, 'warn' | 'error'>;
  version: string;
  gatewayOrigin: string;
  /** Absent: plain HTTP. */
  tls?: Certificates;
  secureCookies: boolean;
  /** Public origins of this API behind a proxy that changes the Host header. */
  ownOrigins?: readonly string[];
  /** Addresses of proxies with a trusted `X-Forwarded-For`. */
  trustProxy?: boolean | string[];
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
  const app = makeServer(options);
  const bodyTimeoutMs = options.bodyTimeoutMs ?? DEFAULT_BODY_TIMEOUT_MS;
  const slowSenders = watchSlowSenders(app, {
    limitMs: bodyTimeoutMs,
    checkedEveryMs: Math.min(TIMEOUTS_CHECKED_EVERY_MS, bodyTimeoutMs),
  });
  const closeUnused = watchUnusedConnections(app.server);
  app.addHook('preClose', async () => closeUnused());

  const pages = makeListPages({
    versionOf: (accountId) => control.versionOf(accountId),
    ...(options.maxPageCacheBytes === undefined ? {} : { maxBytes: options.maxPageCacheBytes }),
  });
  const ownOrigins = new Set(options.ownOrigins);
  const authorize = makeAuthorize(control.access, ownOrigins);
  const handlers = makeHandlers(control, pages, secureCookies);
  mountJsonRoutes(app, { handlers, authorize, ownOrigins, log, slowMs });
  mountStreams(app, options, { authorize, slowSenders });
  mountServerPages(app, options);
  return app;
}

function makeHandlers(control: Control, pages: ListPages, secureCookies: boolean): Handlers {
  return {
    open: openHandlers(control.access, secureCookies),
    closed: {
      ...instanceHandlers(control, pages),
      ...insideHandlers(control),
      ...storageHandlers(control, pages),
      ...catalogHandlers(control),
      ...accountHandlers(control.access, secureCookies),
    },
  };
}

function makeServer({ tls, trustProxy, log }: ApiOptions): FastifyInstance {
  const requestId = makeRequestIds();
  const serverOptions = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUTS_CHECKED_EVERY_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: NO_LIMIT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    shouldUpgradeCallback: isSocketRequest,
  };
  const app = fastify({
    bodyLimit: MAX_BODY_BYTES,
    serverFactory: (handler) => (tls ? tlsServer(serverOptions, tls, handler) : createServer(serverOptions, handler)),
    genReqId: (raw) => requestId(raw.headers['x-request-id']),
    trustProxy: trustProxy ?? false,
    logger: false,
    clientErrorHandler: answerWireError,
    frameworkErrors: (error, request, reply) => answerError(error, request, reply, { log, style: PLAIN }),
  });
  app.decorateRequest('caller', null);
  app.removeAllContentTypeParsers();
  // Raw bytes: parsing follows authorization.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes));
  app.setErrorHandler((error, request, reply) =>
    answerError(error, request, reply, { log, style: request.routeOptions.config.style ?? PLAIN }),
  );
  app.setNotFoundHandler(answerUnknownRoute);
  return app;
}

function mountStreams(
  app: FastifyInstance,
  { control, log, fileStalledMs: stalledMs, eventBeatMs, socketBeatMs }: ApiOptions,
  { authorize, slowSenders }: { authorize: Authorize; slowSenders: SlowSenders },
): void {
  const logins = makeLoginWatch(app, control);
  const streams = makeStreams(app, { logins, log, beatMs: eventBeatMs });
  const parts = { control, authorize, logins, streams, slowSenders, log, stalledMs };
  const mountSocket = mountSockets(app, parts, socketBeatMs);
  const mountByName: Record<StreamRouteName, () => void> = {
    events: () => mountEventStream(app, parts),
    followLogs: () => mountLogStream(app, parts),
    openExec: () => mountSocket(execSocket(control, log)),
    openTerminal: () => mountSocket(terminalSocket(control)),
    downloadFile: () => mountFile(app, parts, 'downloadFile'),
    headFile: () => mountFile(app, parts, 'headFile'),
    uploadFile: () => mountFile(app, parts, 'uploadFile'),
    deleteFile: () => mountFile(app, parts, 'deleteFile'),
  };
  for (const mountRoute of Object.values(mountByName)) mountRoute();
}

function allowedMethods(path: string): string {
  if (serverPagePaths.has(path)) return 'GET';
  return path.startsWith(BASE_PATH) ? methodsOf(path.slice(BASE_PATH.length)).join(', ') : '';
}

function answerUnknownRoute(request: FastifyRequest, reply: FastifyReply): void {
  const path = pathOf(request.url);
  const allow = allowedMethods(path);
  const asText = `${request.method} ${path.slice(0, 200)}`;
  const message = allow
    ? `no route ${asText}: this path takes ${allow}`
    : `no route ${asText}: GET ${BASE_PATH}/openapi.json lists all routes`;
  const { status, contentType, body } = errorBody(allow ? 'method_not_allowed' : 'not_found', message, PLAIN);
  if (allow) reply.header('allow', allow);
  setCommonHeaders(request, reply, contentType)
    .code(status)
    .header('x-error-code', allow ? 'method_not_allowed' : 'not_found')
    .send(body);
}
