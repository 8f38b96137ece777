/** Mounts the JSON routes of the table, with authorization, validation and idempotency. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { MAX_BODY_BYTES } from '../../contract/common.ts';
import { bodyLimitOf } from '../../contract/schema-bounds.ts';
import { OPERATION_HEADER } from '../../contract/compute/operation.ts';
import { BASE_PATH, jsonRouteNames, jsonRouteOf, routes } from '../../contract/routes.ts';
import type { JsonRouteName, OpenRouteName } from '../../contract/routes.ts';
import { IGNORED_HEADER, isOfInterface, type JsonRoute, type Route } from '../../contract/route.ts';
import { QUOTE_HEADER } from '../../contract/compute/quote.ts';
import { WAIT_HEADER } from '../../contract/compute/instance.ts';
import type { Access, Caller, Control, Log } from '../../control/index.ts';
import { whyNotFrom, whyNotLasting } from '../../domain/access/api-key.ts';
import { hasRole } from '../../domain/access/roles.ts';
import { mayUse, scopesFor } from '../../domain/access/scopes.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { passkeySiteOf } from './access/passkey-site.ts';
import type { ConnectionLimit } from '../connection-limit.ts';
import { auditedName, auditNoteOf, idsInAnswer, makeFindIds, type RecordRequest } from './audit-hook.ts';
import { wireBytesOf } from './body-reader.ts';
import { encodeBody } from './compression.ts';
import { presentedCredential, refuseCrossSite } from './credentials.ts';
import { sendContinue } from './expect-header.ts';
import { answered, isOfRequest, type HandlerInput, type Handlers } from './handler.ts';
import type { LoginWatch } from './login-watch.ts';
import { checkThen, JSON_TYPE } from './refusal-reply.ts';
import { addVary, setCommonHeaders } from './reply-headers.ts';
import { costOf, type RequestRates } from './request-rates.ts';
import { isReport, type ReportQueue } from './report-queue.ts';
import { checkBodyHeaders, idempotencyOf, parseBody, quoteIdOf, waitMsOf } from './request.ts';
import type { Streams } from './server-sent.ts';
import type { SlowSenders } from './slow-senders.ts';
import { isObject } from './schema-shape.ts';
import { needsSpace } from './space-guard.ts';
import { makeValidate } from './validate.ts';

export type Authorize = (
  request: FastifyRequest,
  route: Pick<Route, 'path' | 'who' | 'reads' | 'subject'> & Partial<Pick<JsonRoute, 'operation' | 'settingUp'>>,
  reply: FastifyReply,
) => Promise<Caller>;

export function makeAuthorize(
  access: Pick<Access, 'authenticate'>,
  ownOrigins: ReadonlySet<string>,
  connectionLimit: Pick<ConnectionLimit, 'markLoggedIn'>,
  rates: Pick<RequestRates, 'takeOfAccount'>,
): Authorize {
  // Not async: a missing or foreign credential throws before a promise is made.
  return (request, route, reply) => {
    const { credential, byCookie } = presentedCredential(request.headers);
    if (byCookie) refuseCrossSite(request, ownOrigins);
    return access.authenticate(credential, { settingUp: route.settingUp }).then((caller) => {
      connectionLimit.markLoggedIn(request.raw.socket, caller.accountId);
      request.caller = caller;
      // Debts for rows, such as lines of a followed log, delay no stop of what is paid for.
      const ends = !route.reads && request.routeOptions.config.needsSpace === false;
      rates.takeOfAccount(caller.accountId, costOf(route), reply, ends);
      refuseUnauthorized(caller, route, request);
      return caller;
    });
  };
}

/** Method, URL and error format of a row. HEAD of a stream or a file needs a row of its own. */
export const rowOptions = (route: Route) => {
  const { kind, method, path, who, errors, reads } = route;
  return {
    method,
    url: BASE_PATH + path.replace('{id}', ':id').replace('{path}', '*'),
    exposeHeadRoute: kind === 'json',
    config: {
      style: { errors, withCode: who !== 'anyone' },
      audited: auditedName(route),
      needsSpace: needsSpace(route),
      paysForRows: reads,
    },
  };
};

/** Parts that routes of streams, sockets and files share. */
export interface StreamParts {
  control: Control;
  authorize: Authorize;
  recordRequest: RecordRequest;
  logins: LoginWatch;
  streams: Streams;
  slowSenders: SlowSenders;
  reports: ReportQueue;
  log: Pick<Log, 'warn'>;
  stalledMs: number | undefined;
}

export interface MountDeps {
  handlers: Handlers;
  authorize: Authorize;
  authenticate: Access['authenticate'];
  ownOrigins: ReadonlySet<string>;
  apiOrigins: ReadonlySet<string>;
  reports: ReportQueue;
  log: Pick<Log, 'warn'>;
  slowMs: number;
}

export function mountJsonRoutes(app: FastifyInstance, deps: MountDeps): void {
  const { open, ofRequest, closed } = deps.handlers;
  const mountOpen = <Name extends OpenRouteName>(name: Name): void =>
    mount(app, deps, name, async (request, input) => {
      const result: unknown = await open[name](input);
      if (isObject(result) && typeof result['accessToken'] === 'string')
        request.caller = await deps.authenticate({ kind: 'token', token: result['accessToken'] }, { settingUp: true });
      return result;
    });
  const mountFor = <Name extends JsonRouteName>(
    name: Name,
    run: (caller: Caller, input: HandlerInput<Name>) => Promise<unknown>,
  ): void => {
    mount(app, deps, name, ({ caller }, input) => {
      if (!caller) throw new Error(`route ${name} was reached without a caller`);
      const answer = () => run(caller, input);
      return isReport(name, input) ? deps.reports.run(caller.accountId, (runStep) => runStep(answer)) : answer();
    });
  };
  const mountOfRequest = <Name extends keyof Handlers['ofRequest']>(name: Name): void =>
    mountFor(name, (caller, input) => ofRequest[name](caller, input));
  const mountClosed = <Name extends keyof Handlers['closed']>(name: Name): void =>
    mountFor(name, (caller, { body, idempotency }) => closed[name](caller, body, idempotency));
  for (const name of jsonRouteNames) {
    if (isOpen(name)) mountOpen(name);
    else if (isOfRequest(name)) mountOfRequest(name);
    else mountClosed(name);
  }
}

function mount<Name extends JsonRouteName>(
  app: FastifyInstance,
  { authorize, ownOrigins, apiOrigins, log, slowMs }: MountDeps,
  name: Name,
  run: (request: FastifyRequest, input: HandlerInput<Name>) => Promise<unknown>,
): void {
  const route = jsonRouteOf(name);
  const { who } = route;
  const validate = makeValidate(route.body, {
    unknown: isOfInterface(route) ? 'ignore' : 'refuse',
    limiting: route.limiting,
  });
  const isAudited = auditedName(route) !== null;
  const findIds = makeFindIds(route.body);
  const jsonBytes = bodyLimitOf(route);
  const bodyLimit = wireBytesOf(jsonBytes, MAX_BODY_BYTES);
  const { config, ...options } = rowOptions(route);
  app.route({
    ...options,
    config: { ...config, jsonBytes },
    bodyLimit,
    onRequest(request, reply, done) {
      // Login sets the cookie: a foreign page must not log a browser in to another account.
      if (who === 'anyone') checkThen(() => refuseCrossSite(request, ownOrigins), done);
      else checkThen(() => authorize(request, route, reply), done);
    },
    preParsing(request, reply, payload, done) {
      // A longer body is refused by its length.
      if (Number(request.headers['content-length'] ?? 0) <= bodyLimit) sendContinue(request.raw, reply.raw);
      done(null, payload);
    },
    async handler(request, reply) {
      const startedMs = performance.now();
      const body = validate(jsonOf(request), (names) => void reply.header(IGNORED_HEADER, names));
      if (isAudited) noteBody(request, body, findIds);
      refuseLasting(request, route);
      const idempotency = route.idempotent ? idempotencyOf(request.headers['idempotency-key'], route.path, body) : null;
      const result = await run(request, {
        body,
        idempotency,
        waitMs: route.waits ? waitMsOf(request.headers[WAIT_HEADER.toLowerCase()]) : null,
        quoteId: route.quoted ? quoteIdOf(request.headers[QUOTE_HEADER.toLowerCase()]) : null,
        get from() {
          return request.ip;
        },
        userAgent: request.headers['user-agent'],
        clientGone: () => clientGoneSignal(reply.raw),
        setHeader: (key, value) => void reply.header(key, value),
        passkeySite: () => passkeySiteOf(request, apiOrigins),
      });
      const { answer, operationId } = answered(route, body, result);
      if (operationId !== undefined) reply.header(OPERATION_HEADER, operationId);
      if (isAudited && !route.reads) auditNoteOf(request).subjects.push(...idsInAnswer(answer));
      setCommonHeaders(request, reply, JSON_TYPE);
      const tookMs = performance.now() - startedMs;
      if (tookMs > slowMs) log.warn({ requestId: request.id, route: name, tookMs: Math.round(tookMs) }, 'slow request');
      const text = Buffer.isBuffer(answer) ? answer : JSON.stringify(answer);
      if (!route.compressed) return text;
      addVary(reply, 'Accept-Encoding');
      return encodeBody(request, reply, text);
    },
  });
}

function noteBody(request: FastifyRequest, body: unknown, findIds: (body: unknown) => unknown[]): void {
  const note = auditNoteOf(request);
  note.subjects.push(...findIds(body));
  if (request.caller === null && isObject(body) && typeof body['username'] === 'string')
    note.loginName = body['username'];
}

/** Undefined without a body, and on GET, whose body is ignored. */
function jsonOf(request: FastifyRequest): unknown {
  const { headers, body } = request;
  // An idle connection holds its last request.
  request.body = undefined;
  if (!Buffer.isBuffer(body)) return undefined;
  checkBodyHeaders(headers);
  return parseBody(body);
}

function clientGoneSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const leave = (): void => {
    if (!response.writableFinished) gone.abort(new Refusal('unavailable', 'the caller has disconnected'));
  };
  if (response.destroyed) leave();
  else response.once('close', leave);
  return gone.signal;
}

const isOpen = (name: JsonRouteName): name is OpenRouteName => routes[name].who === 'anyone';

function refuseLasting({ caller }: Pick<FastifyRequest, 'caller'>, { lasting }: Pick<JsonRoute, 'lasting'>): void {
  if (lasting === null || caller === null) return;
  const why = whyNotLasting(caller, lasting);
  if (why !== null) throw new Refusal('forbidden', why);
}

function refuseUnauthorized(
  { roles, username, scopes, limits }: Caller,
  route: Pick<Route, 'who' | 'reads' | 'subject'>,
  request: Pick<FastifyRequest, 'ip'>,
): void {
  const why = limits === undefined ? null : whyNotFrom(limits, request.ip);
  if (why !== null) throw new Refusal('forbidden', why);
  const { who } = route;
  if (who !== 'anyone' && who !== 'account' && !hasRole(roles, who))
    throw new Refusal('forbidden', `only accounts of the group "${who}" may do this; you are ${username}`);
  if (mayUse(scopes, route)) return;
  const needed = scopesFor(route).map((scope) => `"${scope}"`);
  throw new Refusal(
    'forbidden',
    `the API key lacks the scope ${needed.join(' or ')}; use a login, or create a key with this scope`,
  );
}
