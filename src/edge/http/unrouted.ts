/** Requests that reach no route: foreign host, unknown path or method, or not valid HTTP. */
import { METHODS, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BASE_PATH, methodsOf, routeNames, routeOf } from '../../contract/routes.ts';
import { CLEAR_PATH, headBytes, MAX_HEAD_BYTES, isOfBrowser } from '../full-cookies.ts';
import { answerInTurn, endLate, refuseHttp2 } from '../malformed-requests.ts';
import { securityHeaders } from '../security-headers.ts';
import { refusalOfExpect } from './expect-header.ts';
import { isOfConsole, sendConsole, type ConsoleFiles } from './console-files.ts';
import { refusalOfHost } from './host-header.ts';
import { HTML_TYPE } from './html.ts';
import { pageHeaders } from './access/form-page.ts';
import { asksForPage, refusalPage, sendRefusalPage } from './access/refusal-pages.ts';
import { htmlBelow } from './path-prefix.ts';
import { errorBody, JSON_TYPE, pathOf, PLAIN, type Unrouted } from './refusal-reply.ts';
import { setCommonHeaders } from './reply-headers.ts';
import { errorKinds } from './status.ts';

export function refuseWrongHeads(app: FastifyInstance, hosts: ReadonlySet<string>): void {
  app.addHook('onRequest', (request, reply, done) => {
    const refused = refusalOfSize(request.raw) ?? refusalOfHost(request.raw, hosts) ?? refusalOfExpect(request.raw);
    if (refused === null) done();
    else if (!sendRefusalPage(request, reply, refused)) answer(request, reply, refused);
  });
}

/** Answers before fastify reads the body; fastify's own 404 would read it. */
export function refuseUnknownRoutes(
  app: FastifyInstance,
  { built, allowed }: { built: ConsoleFiles | null; allowed: AllowedMethods },
): void {
  const isPage = (path: string): boolean => built !== null && isOfConsole(built, path);
  app.addHook('onRequest', (request, reply, done) => {
    if (!request.is404) return done();
    const refused = unknownRoute(request, (path) => (isPage(path) ? 'GET, HEAD' : allowed(path)));
    const isPageless = built === null || refused.code !== 'not_found' || !asksForPage(request);
    if (isPageless || request.url.startsWith(BASE_PATH)) answer(request, reply, refused);
    else sendConsole(built, request, reply.code(404).header('x-error-code', refused.code));
  });
}

function refusalOfSize({ rawHeaders, method, url }: IncomingMessage): Unrouted | null {
  if (headBytes(rawHeaders) <= MAX_HEAD_BYTES || (method === 'POST' && url === CLEAR_PATH)) return null;
  return HEADERS_TOO_LARGE;
}

/** Methods of a path as in `Allow`; empty for an unknown path. */
export type AllowedMethods = (path: string) => string;

/** Knows the routes of the table, and what is mounted later beside them. */
export function watchMethods(app: FastifyInstance): AllowedMethods {
  const mounted = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    mounted.set(url, new Set([...(mounted.get(url) ?? []), ...[method].flat()]));
  });
  return (path) => {
    const ofTable = path.startsWith(BASE_PATH) ? methodsOf(path.slice(BASE_PATH.length)) : [];
    return (ofTable.length > 0 ? ofTable : [...(mounted.get(path) ?? [])].toSorted()).join(', ');
  };
}

function unknownRoute({ method = '', url = '' }: { method?: string; url?: string }, allowed: AllowedMethods): Unrouted {
  const path = pathOf(url);
  const allow = allowed(path);
  const noRoute = `no route ${method} ${path.slice(0, 200)}`;
  return allow === ''
    ? { code: 'not_found', message: `${noRoute}: GET ${BASE_PATH}/openapi.json lists all routes${nearRoute(path)}` }
    : { code: 'method_not_allowed', message: `${noRoute}: this path takes ${allow}`, allow };
}

const routePaths = new Map(routeNames.map(routeOf).map(({ path }) => [path.toLowerCase(), path]));

function nearRoute(path: string): string {
  const lower = path.toLowerCase();
  const near = routePaths.get(lower.startsWith(`${BASE_PATH}/`) ? lower.slice(BASE_PATH.length) : lower);
  return near === undefined ? '' : `; did you mean ${BASE_PATH}${near}?`;
}

function answer(request: FastifyRequest, reply: FastifyReply, { code, message, allow }: Unrouted): void {
  const { status, contentType, body } = errorBody(code, message, PLAIN);
  if (allow !== undefined) reply.header('allow', allow);
  setCommonHeaders(request, reply, contentType).code(status).header('x-error-code', code).send(body);
}

export const TOO_SLOW: Unrouted = { code: 'request_timeout', message: 'the request took too long to arrive' };
const HEADERS_TOO_LARGE: Unrouted = {
  code: 'headers_too_large',
  message: `the headers are too large: at most ${MAX_HEAD_BYTES / 1024} KiB are read`,
};
const MALFORMED: Unrouted = { code: 'bad_request', message: 'this is not a valid HTTP request' };
const BY_NODE_CODE: Record<string, Unrouted> = {
  HPE_HEADER_OVERFLOW: HEADERS_TOO_LARGE,
  ERR_HTTP_REQUEST_TIMEOUT: TOO_SLOW,
};

interface WireError extends NodeJS.ErrnoException {
  rawPacket?: unknown;
}

/** Answers CONNECT and what Node's parser refuses, after the responses to earlier requests. */
export class WireErrors {
  readonly #requestId: () => string;
  readonly #prefix: string;
  readonly #allowed: AllowedMethods;
  readonly #exchanges = new WeakMap<Duplex, Map<ServerResponse, IncomingMessage>>();

  constructor(requestId: () => string, prefix: string, allowed: AllowedMethods) {
    this.#requestId = requestId;
    this.#prefix = prefix;
    this.#allowed = allowed;
  }

  watch(server: Pick<Server, 'on'>): void {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      let pending = this.#exchanges.get(request.socket);
      if (pending === undefined) this.#exchanges.set(request.socket, (pending = new Map()));
      pending.set(response, request);
      response.once('close', () => pending.delete(response));
    });
    // Node closes a CONNECT without an answer.
    server.on('connect', (request: IncomingMessage, socket: Duplex) => {
      socket.on('error', () => socket.destroy());
      this.#refuse(socket, unknownRoute(request, this.#allowed));
    });
  }

  /** `clientErrorHandler` of fastify. */
  answer(error: WireError, socket: Duplex): void {
    if (error.code === 'ECONNRESET') return void socket.destroy();
    const refused = unknownMethod(error, this.#allowed) ?? BY_NODE_CODE[error.code ?? ''] ?? MALFORMED;
    if (socket.writableEnded || refuseHttp2(socket, error)) return;
    this.#refuse(socket, refused, isOfBrowser(error.rawPacket));
  }

  #pageOf(refused: Unrouted): string | null {
    const page = refusalPage({ headers: {} }, refused);
    return page === null ? null : htmlBelow(page, this.#prefix);
  }

  #refuse(socket: Duplex, refused: Unrouted, asPage = false): void {
    const pending = this.#exchanges.get(socket) ?? new Map<ServerResponse, IncomingMessage>();
    answerInTurn(socket, pending, () => {
      if ([...pending.keys()].some(({ headersSent }) => headersSent)) socket.destroy();
      else answerOnSocket(socket, refused, this.#requestId(), asPage ? this.#pageOf(refused) : null);
    });
  }
}

const REQUEST_LINE = /^([!#$%&'*+.^_`|~\w-]+) (\/\S*) HTTP\/1\.[01]\r\n/;

/** Node's parser stops at a method that it does not know, such as `FOO`. Null for other errors. */
function unknownMethod({ code, rawPacket }: WireError, allowed: AllowedMethods): Unrouted | null {
  if (code !== 'HPE_INVALID_METHOD' || !Buffer.isBuffer(rawPacket)) return null;
  const [, method = '', url = ''] = REQUEST_LINE.exec(rawPacket.toString('latin1')) ?? [];
  // A packet that begins with a known method has the faulty request behind another one.
  return url === '' || METHODS.includes(method) ? null : unknownRoute({ method, url }, allowed);
}

/** Answers without a parsed request, by JSON without a page, and closes. */
export function answerOnSocket(
  socket: Duplex,
  { code, message, allow }: Unrouted,
  requestId: string,
  shown: string | null = null,
): void {
  if (!socket.writable) return void socket.destroy();
  const { status } = errorKinds[code];
  const body = shown ?? JSON.stringify({ message });
  const own = shown === null ? { 'content-type': JSON_TYPE } : { 'content-type': HTML_TYPE, ...pageHeaders };
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-error-code: ${code}`,
    `x-request-id: ${requestId}`,
    ...Object.entries({ ...securityHeaders, ...own }).map(([name, value]) => `${name}: ${value}`),
    ...(allow === undefined ? [] : [`allow: ${allow}`]),
    'connection: close',
  ];
  endLate(socket, `${head.join('\r\n')}\r\n\r\n${body}`);
}
