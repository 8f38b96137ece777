/**
 * # The HTTP edge
 *
 * Mounts the table of routes (`contract/routes.ts`) on fastify. For each request, in this order: the credential and the right to
 * call (before a byte of the body is read), the body's bytes to JSON, the body against the route's schema, the idempotency key,
 * the handler. Whatever is thrown on the way ends in `refusal-reply.ts`. Built apart from listening: main listens.
 *
 * Read on in `handlers.ts` (what each route asks control), `validate.ts` (the words of a refused body), `status.ts` (codes to
 * statuses), `credentials.ts` and `cross-site.ts` (who calls), `list-pages.ts` (why a list is cheap).
 */
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MAX_BODY_BYTES } from '../../contract/common.ts';
import { EVENTS_PATH } from '../../contract/events.ts';
import { LOGS_PATH } from '../../contract/log.ts';
import { EXEC_PATH, TERMINAL_PATH } from '../../contract/exec.ts';
import { openapiDocument } from '../../contract/openapi.ts';
import { BASE_PATH, routeNames, routeOf, routes } from '../../contract/routes.ts';
import { ADMIN_ROLE } from '../../domain/roles.ts';
import type { BodyOf, Route, RouteName } from '../../contract/routes.ts';
import { WAIT_HEADER } from '../../contract/wait.ts';
import type { Caller, Control, Idempotency, Log } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { checkBodyHeaders, parseBody } from './body.ts';
import { presentedCredential } from './credentials.ts';
import { refuseCrossSite } from './cross-site.ts';
import { mountEventStream } from './event-stream.ts';
import { execSocket } from './exec-socket.ts';
import { methodsOfFile, mountFiles } from './files.ts';
import { frontPage, HTML_TYPE } from './front-page.ts';
import { makeHandlers } from './handlers.ts';
import type { ClosedRoute, OpenRoute } from './handlers.ts';
import { idempotencyOf } from './idempotency.ts';
import { makeListPages } from './list-pages.ts';
import { makeLoginWatch } from './login-watch.ts';
import { mountLogStream } from './log-stream.ts';
import { answerError, errorBody, JSON_TYPE, pathOf, PLAIN } from './refusal-reply.ts';
import type { ErrorStyle } from './refusal-reply.ts';
import { makeRequestIds } from './request-id.ts';
import { makeStreams } from './server-sent.ts';
import { watchSlowSenders } from './slow-senders.ts';
import { watchUnusedConnections } from './unused-connections.ts';
import { tlsServer } from './tls-server.ts';
import type { ApiTls } from './tls-server.ts';
import { isSocketRequest, mountSockets } from './sockets.ts';
import { errorKinds } from './status.ts';
import { terminalSocket } from './terminal-socket.ts';
import { makeValidate } from './validate.ts';
import { waitMsOf } from './wait-header.ts';
import { answerWireError, MAX_HEADER_BYTES } from './wire-errors.ts';

/** A body has to be here after this, that of a file aside. */
const DEFAULT_BODY_TIMEOUT_MS = 30_000;
const HEADERS_TIMEOUT_MS = 10_000;
const TIMEOUTS_CHECKED_EVERY_MS = 2_000;
/** Node's own limit would hold for uploads, too: `slow-senders.ts` keeps one for all others. */
const NO_LIMIT_MS = 0;
/** Longer than the minute after which usual proxies drop an idle connection, so that they, not we, close it. */
const KEEP_ALIVE_MS = 72_000;
const DEFAULT_SLOW_MS = 1_000;

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before the body is read, on each route that needs a login. */
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
  /** Where instances are reached; never an origin of this API. */
  gatewayOrigin: string;
  /** Absent: plain HTTP. */
  tls?: ApiTls;
  /** Whether browsers reach this API by https. */
  secureCookies: boolean;
  /** Origins that browsers know this API by, where a proxy sends another Host header inward. */
  ownOrigins?: readonly string[];
  /** Addresses of proxies whose `X-Forwarded-For` is believed. */
  trustProxy?: boolean | string[];
  /** Bodies that take longer to arrive are cut off. */
  bodyTimeoutMs?: number;
  /** A transfer of a file of which nothing moves for so long is cut off. */
  fileStalledMs?: number;
  /** Requests slower than this are logged. */
  slowMs?: number;
  maxPageCacheBytes?: number;
  /** How often an event stream says that it lives, and asks whether its login does. */
  eventBeatMs?: number;
  /** The same of a WebSocket. */
  socketBeatMs?: number;
}

export function makeApi(options: ApiOptions): FastifyInstance {
  const { control, log, version, gatewayOrigin, secureCookies, slowMs = DEFAULT_SLOW_MS } = options;
  const requestId = makeRequestIds();
  const serverOptions = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUTS_CHECKED_EVERY_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: NO_LIMIT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    shouldUpgradeCallback: isSocketRequest,
  };
  const { tls } = options;
  const app = fastify({
    bodyLimit: MAX_BODY_BYTES,
    serverFactory: (handler) => (tls ? tlsServer(serverOptions, tls, handler) : createServer(serverOptions, handler)),
    genReqId: (raw) => requestId(raw.headers['x-request-id']),
    trustProxy: options.trustProxy ?? false,
    logger: false,
    clientErrorHandler: answerWireError,
    frameworkErrors: (error, request, reply) => answerError(error, request, reply, { log, style: PLAIN }),
  });
  app.decorateRequest('caller', null);
  app.removeAllContentTypeParsers();
  // The bytes alone: what they are is looked at after the caller is known to have such a route.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes));
  app.setErrorHandler((error, request, reply) =>
    answerError(error, request, reply, { log, style: request.routeOptions.config.style ?? PLAIN }),
  );
  app.setNotFoundHandler(answerUnknownRoute);
  const slowSenders = watchSlowSenders(app, {
    limitMs: options.bodyTimeoutMs ?? DEFAULT_BODY_TIMEOUT_MS,
    checkedEveryMs: Math.min(TIMEOUTS_CHECKED_EVERY_MS, options.bodyTimeoutMs ?? DEFAULT_BODY_TIMEOUT_MS),
  });
  const cutSpareConnections = watchUnusedConnections(app.server);
  app.addHook('preClose', async () => cutSpareConnections());

  const pages = makeListPages({
    versionOf: (accountId) => control.versionOf(accountId),
    ...(options.maxPageCacheBytes === undefined ? {} : { maxBytes: options.maxPageCacheBytes }),
  });
  const handlers = makeHandlers({ control, pages, secureCookies });
  const ownOrigins = new Set(options.ownOrigins);

  /** Throws or passes: who calls, and whether the route is theirs to call. */
  function admit(request: FastifyRequest, route: Pick<Route, 'who'>): Promise<Caller> {
    const { credential, byCookie } = presentedCredential(request.headers);
    if (byCookie) refuseCrossSite(request.headers, ownOrigins);
    const known = control.access.authenticate(credential);
    return route.who === 'admin' ? known.then(onlyAdmins) : known;
  }

  function mount<Name extends RouteName>(
    name: Name,
    run: (
      request: FastifyRequest,
      asked: {
        body: BodyOf<Name>;
        idempotency: Idempotency | null;
        waitMs: number | null;
        from: string;
        gone: () => AbortSignal;
        setHeader(key: string, value: string): void;
      },
    ) => Promise<unknown>,
  ): void {
    const route = routeOf(name);
    const validate = makeValidate(route.body);
    const needsLogin = route.who !== 'anyone';
    app.route({
      method: route.method,
      url: BASE_PATH + route.path,
      config: { style: { errors: route.errors, withCode: needsLogin } },
      onRequest(request, _reply, done) {
        try {
          // A login sets the cookie, so a foreign page must not be able to log a browser in as somebody else.
          if (!needsLogin) {
            refuseCrossSite(request.headers, ownOrigins);
            done();
            return;
          }
          admit(request, route).then((caller) => {
            request.caller = caller;
            done();
          }, done);
        } catch (error) {
          done(error instanceof Error ? error : new Error('refused with no error', { cause: error }));
        }
      },
      async handler(request, reply) {
        const startedMs = performance.now();
        const body = validate(jsonOf(request));
        const idempotency = route.idempotent
          ? idempotencyOf(request.headers['idempotency-key'], route.path, body)
          : null;
        const answer = await run(request, {
          body,
          idempotency,
          waitMs: route.waits ? waitMsOf(request.headers[WAIT_HEADER.toLowerCase()]) : null,
          from: request.ip,
          gone: () => goneSignal(reply.raw),
          setHeader: (key, value) => void reply.header(key, value),
        });
        setCommonHeaders(request, reply, JSON_TYPE);
        const tookMs = performance.now() - startedMs;
        if (tookMs > slowMs)
          log.warn({ requestId: request.id, route: name, tookMs: Math.round(tookMs) }, 'slow request');
        return Buffer.isBuffer(answer) ? answer : JSON.stringify(answer);
      },
    });
  }

  const mountOpen = <Name extends OpenRoute>(name: Name): void =>
    mount(name, (_request, asked) => handlers.open[name](asked));
  const mountClosed = <Name extends ClosedRoute>(name: Name): void =>
    mount(name, (request, asked) => {
      if (!request.caller) throw new Error(`route ${name} was reached without a caller`);
      return handlers.closed[name](request.caller, asked);
    });
  for (const name of routeNames) {
    if (isOpen(name)) mountOpen(name);
    else mountClosed(name);
  }

  const admitAccount = (request: FastifyRequest): Promise<Caller> => admit(request, { who: 'account' });
  const logins = makeLoginWatch(app, control);
  const streams = makeStreams(app, { logins, log, beatMs: options.eventBeatMs });
  mountEventStream(app, { events: control.events, streams, authorize: admitAccount });
  mountLogStream(app, { logs: control.logs, streams, authorize: admitAccount, log, stalledMs: options.fileStalledMs });
  mountFiles(app, {
    files: control.files,
    authorize: admitAccount,
    logins,
    slowSenders,
    log,
    stalledMs: options.fileStalledMs,
  });
  const mountSocket = mountSockets(app, {
    logins,
    authorize: admitAccount,
    beatMs: options.socketBeatMs,
  });
  mountSocket(execSocket({ commands: control.commands, log }));
  mountSocket(terminalSocket(control));
  mountSelfDescription(app, { control, version, gatewayOrigin });
  return app;
}

/** What is outside the table: whether the process lives, whether it can serve, and what this address is. */
function mountSelfDescription(
  app: FastifyInstance,
  { control, version, gatewayOrigin }: Pick<ApiOptions, 'control' | 'version' | 'gatewayOrigin'>,
): void {
  const page = frontPage({ version, gatewayOrigin });
  const document = JSON.stringify(openapiDocument({ version, errorKinds }));
  const give = (path: string, contentType: string, body: string): void => {
    app.get(path, (request, reply) => {
      setCommonHeaders(request, reply, contentType).send(body);
    });
  };
  give('/', HTML_TYPE, page);
  give(`${BASE_PATH}/openapi.json`, JSON_TYPE, document);
  give('/healthz', JSON_TYPE, JSON.stringify({ alive: true }));
  app.get('/readyz', async (request, reply) => {
    const { ready, text } = await control.health();
    if (!ready) throw new Refusal('unavailable', text, { retryAfterS: 1 });
    setCommonHeaders(request, reply, JSON_TYPE);
    return JSON.stringify({ ready, text });
  });
}

/** `undefined` where there is no body, and on a GET, whose body is not looked at. */
function jsonOf({ headers, body }: FastifyRequest): unknown {
  if (!Buffer.isBuffer(body)) return undefined;
  checkBodyHeaders(headers);
  return parseBody(body);
}

/** Aborts when the caller has left before the answer was out. */
function goneSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const leave = (): void => {
    if (!response.writableFinished) gone.abort(new Refusal('unavailable', 'the caller has left'));
  };
  if (response.destroyed) leave();
  else response.once('close', leave);
  return gone.signal;
}

const isOpen = (name: RouteName): name is OpenRoute => routes[name].who === 'anyone';

function onlyAdmins(caller: Caller): Caller {
  if (caller.roles.includes(ADMIN_ROLE)) return caller;
  throw new Refusal('forbidden', `only accounts of the group "${ADMIN_ROLE}" may do this; you are ${caller.username}`);
}

const setCommonHeaders = (request: FastifyRequest, reply: FastifyReply, contentType: string): FastifyReply =>
  reply
    .header('content-type', contentType)
    .header('cache-control', 'no-store')
    .header('x-content-type-options', 'nosniff')
    .header('x-request-id', request.id);

const allowedMethods: ReadonlyMap<string, string> = new Map([
  ...routeNames.map((name): [string, string] => [BASE_PATH + routes[name].path, routes[name].method]),
  [BASE_PATH + EXEC_PATH, 'GET, POST'],
  ...['/', '/healthz', '/readyz', `${BASE_PATH}/openapi.json`, BASE_PATH + EVENTS_PATH, BASE_PATH + TERMINAL_PATH].map(
    (path): [string, string] => [path, 'GET'],
  ),
  [BASE_PATH + LOGS_PATH, 'GET, POST'],
]);

function answerUnknownRoute(request: FastifyRequest, reply: FastifyReply): void {
  const path = pathOf(request.url);
  const allow = allowedMethods.get(path) ?? methodsOfFile(path);
  const asked = `${request.method} ${path.slice(0, 200)}`;
  const message = allow
    ? `no route ${asked}: this path takes ${allow}`
    : `no route ${asked}: GET ${BASE_PATH}/openapi.json lists all routes`;
  const { status, contentType, body } = errorBody(allow ? 'method_not_allowed' : 'not_found', message, PLAIN);
  if (allow) reply.header('allow', allow);
  setCommonHeaders(request, reply, contentType)
    .code(status)
    .header('x-error-code', allow ? 'method_not_allowed' : 'not_found')
    .send(body);
}
