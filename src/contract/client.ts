/**
 * A typed client derived from the route table, one method per route, for browsers and Node. To
 * repeat a call after a broken connection, pass the same `idempotencyKey`: the call acts once.
 */
import { SECOND_FACTOR_HEADER } from './access/second-factor.ts';
import { bookCalls, type BookCalls } from './money/book-client.ts';
import { QUOTE_HEADER } from './compute/quote.ts';
import { ZodError } from 'zod';
import type { z } from 'zod';
import { errorCodes, plainError, type ErrorCode } from './common.ts';
import { readEvents } from './delivery/events.ts';
import type { EventOptions, OpenStream, StreamedEvent } from './delivery/events.ts';
import { fileCalls, type FileCalls } from './storage/file.ts';
import { logCalls } from './compute/log-client.ts';
import type { LogCalls } from './compute/log-client.ts';
import { socketCalls } from './compute/socket-client.ts';
import type { SocketCalls } from './compute/socket-client.ts';
import { jsonRouteNames, jsonRouteOf, routes } from './routes.ts';
import type { AnswerOf, InputOf, JsonRouteName } from './routes.ts';
import { EVENT_STREAM_TYPE } from './server-sent.ts';
import { WAIT_HEADER } from './compute/instance.ts';

/** `cookie`: the browser's own, of a login on the same origin. */
export type ClientCredential = { kind: 'token'; token: string } | { kind: 'apiKey'; key: string } | { kind: 'cookie' };

export interface CallOptions {
  signal?: AbortSignal;
  /** Key of an earlier try of the same call; a fresh key by default. */
  idempotencyKey?: string;
  /** Lets a launch or start wait for capacity: seconds, or `true` for a day. */
  waitForCapacity?: true | number;
  /** Launches at the price of this quote. */
  quoteId?: string;
}

/**
 * `unreachable`: no answer. `proxy`: a proxy in front answered, or lets no WebSocket pass.
 * `unreadable`: an answer of another format.
 */
export type ClientErrorCode = ErrorCode | 'unreachable' | 'proxy' | 'unreadable';

export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status; 0 when no answer came. */
  readonly status: number;
  readonly code: ClientErrorCode;
  /** Reference for the operator; empty when no answer came. */
  readonly requestId: string;
  /** Seconds after which the same call may succeed. */
  readonly retryAfterS: number | undefined;
  /** Value of `X-Berth-Second-Factor`. */
  readonly secondFactor: string | undefined;

  constructor(
    message: string,
    more: {
      status: number;
      code: ClientErrorCode;
      requestId?: string;
      retryAfterS?: number | undefined;
      secondFactor?: string | undefined;
      cause?: unknown;
    },
  ) {
    super(message, { cause: more.cause });
    this.status = more.status;
    this.code = more.code;
    this.requestId = more.requestId ?? '';
    this.retryAfterS = more.retryAfterS;
    this.secondFactor = more.secondFactor;
  }
}

type Arguments<Name extends JsonRouteName> =
  Record<never, never> extends InputOf<Name>
    ? [body?: InputOf<Name>, options?: CallOptions]
    : [body: InputOf<Name>, options?: CallOptions];

type JsonCalls = { [Name in JsonRouteName]: (...call: Arguments<Name>) => Promise<AnswerOf<Name>> };

export type Client = JsonCalls &
  BookCalls &
  FileCalls &
  LogCalls &
  SocketCalls & {
    /** Yields the account's events and reconnects after a lost connection (`events.ts`). */
    events(options?: EventOptions): AsyncGenerator<StreamedEvent, void>;
  };

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface ClientOptions {
  /** Address up to and including `/api`; `/api` alone in a page of the server itself. */
  baseUrl: string;
  fetch?: Fetch;
  /** A function is called before each request. Null: not logged in. */
  credential?: ClientCredential | (() => ClientCredential | null);
}

export function makeClient({ baseUrl, fetch: send = globalThis.fetch, credential }: ClientOptions): Client {
  const root = baseUrl.replace(/\/+$/, '');

  const asCaller = (accept: string): { headers: Record<string, string>; credentials: 'same-origin' | 'omit' } => {
    const headers: Record<string, string> = { accept };
    const mine = typeof credential === 'function' ? credential() : (credential ?? null);
    if (mine?.kind === 'token') headers['authorization'] = `Bearer ${mine.token}`;
    if (mine?.kind === 'apiKey') headers['x-api-key'] = mine.key;
    // Only a page of the server itself uses the cookie.
    return { headers, credentials: mine === null || mine.kind === 'cookie' ? 'same-origin' : 'omit' };
  };

  /** Returns a successful response with its body unread. */
  const open = async (url: string, accept: string, init: RequestInit): Promise<Response> => {
    const { headers, credentials } = asCaller(accept);
    Object.assign(headers, init.headers);
    const response = await send(url, { ...init, headers, credentials }).catch((error: unknown) =>
      init.signal?.aborted ? Promise.reject(error) : unreachable(url, error),
    );
    if (response.ok) return response;
    throw errorOf({ response, json: parsed(await response.text()) });
  };

  const openEvents: OpenStream = async (after, signal) => {
    const headers: Record<string, string> = after === null ? {} : { 'last-event-id': String(after) };
    const url = root + routes.events.path;
    const { body } = await open(url, EVENT_STREAM_TYPE, { headers, ...(signal ? { signal } : {}) });
    return body ?? unreachable(url, new Error('the answer has no body'));
  };

  const caller =
    <Name extends JsonRouteName>(name: Name) =>
    async (
      body: unknown = {},
      { signal, idempotencyKey, waitForCapacity, quoteId }: CallOptions = {},
    ): Promise<AnswerOf<Name>> => {
      const route = jsonRouteOf(name);
      const { headers, credentials } = asCaller('application/json');
      if (route.method === 'POST') headers['content-type'] = 'application/json';
      if (route.idempotent) headers['idempotency-key'] = idempotencyKey ?? freshKey();
      if (route.waits && waitForCapacity !== undefined) headers[WAIT_HEADER.toLowerCase()] = String(waitForCapacity);
      if (route.quoted && quoteId !== undefined) headers[QUOTE_HEADER.toLowerCase()] = quoteId;
      const reply = await reach(send, root + route.path, {
        method: route.method,
        headers,
        credentials,
        ...(route.method === 'POST' ? { body: JSON.stringify(body) } : {}),
        ...(signal ? { signal } : {}),
      });
      if (!reply.response.ok) throw errorOf(reply);
      return readAnswer(route.answer, reply);
    };

  /** A page cannot set WebSocket headers and uses its cookie; Node can. */
  const connect = (path: string, protocol: string): WebSocket => {
    const page = 'location' in globalThis ? String(Reflect.get(globalThis, 'location')) : undefined;
    const url = new URL(root + path, page);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const { headers, credentials } = asCaller('*/*');
    // The types of browsers have no headers, which Node's WebSocket takes.
    return credentials === 'omit'
      ? Reflect.construct(WebSocket, [url, { protocols: [protocol], headers }])
      : new WebSocket(url, protocol);
  };
  const throwRefusal = async (path: string): Promise<never> => {
    await open(root + path, 'application/json', {}).catch((error: unknown) => {
      // Without an upgrade the server refuses only its absence when all else is right.
      if (!(error instanceof ApiError && /this is a WebSocket/.test(error.message))) throw error;
    });
    throw new ApiError(NO_WEB_SOCKETS, { status: 0, code: 'proxy' });
  };

  // The table names each method and types its call; Object.fromEntries keeps neither.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const calls = Object.fromEntries(jsonRouteNames.map((name) => [name, caller(name)])) as JsonCalls;
  return {
    ...calls,
    ...bookCalls((path) => open(root + path, '*/*', {})),
    ...fileCalls((path, init) => open(root + path, '*/*', init)),
    ...logCalls({ call: (path, accept, init) => open(root + path, accept, init), retryAfterS }),
    ...socketCalls(connect, throwRefusal),
    events: (options = {}) => readEvents(options, { open: openEvents, retryAfterS }),
  };
}

/** 128 random bits. Browsers offer `randomUUID` on https pages only. */
const freshKey = (): string =>
  Array.from(globalThis.crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );

interface Reply {
  response: Response;
  /** Undefined without JSON, such as an error page of a proxy. */
  json: unknown;
}

async function reach(send: Fetch, url: string, init: RequestInit): Promise<Reply> {
  try {
    const response = await send(url, init);
    return { response, json: parsed(await response.text()) };
  } catch (error) {
    if (init.signal?.aborted) throw error;
    return unreachable(url, error);
  }
}

function unreachable(url: string, cause: unknown): never {
  throw new ApiError(`the server cannot be reached at ${url}`, { status: 0, code: 'unreachable', cause });
}

/** Seconds before a stream may reconnect; null for a permanent refusal. */
function retryAfterS(error: unknown): number | null {
  if (error instanceof SyntaxError || error instanceof ZodError) return null;
  if (!(error instanceof ApiError) || error.code === 'unreachable') return 0;
  return error.status === 429 || error.status >= 500 ? (error.retryAfterS ?? 1) : null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const NO_WEB_SOCKETS =
  'the server answers, but the WebSocket does not open: a proxy in front has to pass the headers Upgrade and Connection on';

/** Statuses of a proxy that answers instead of the server, which names each of its answers. */
function proxyText(status: number): string {
  if (status === 413) return 'a proxy in front of the server refused the body as too large: its limit has to be raised';
  if (status === 502 || status === 503 || status === 504)
    return `a proxy in front of the server did not reach it (${status}): the server is away, or the proxy has another address of it`;
  return `a proxy in front of the server answered ${status} instead of it`;
}

/** Takes the answer of a refused request. `header` returns null without the header. */
export function refusalOf(status: number, header: (name: string) => string | null, json: unknown): ApiError {
  const said = plainError.safeParse(json);
  const code = errorCodes.find((known) => known === header('x-error-code'));
  const requestId = header('x-request-id') ?? '';
  const retryAfterS = Number(header('retry-after') ?? Number.NaN);
  const more = {
    status,
    requestId,
    retryAfterS: Number.isFinite(retryAfterS) ? retryAfterS : undefined,
    secondFactor: header(SECOND_FACTOR_HEADER) ?? undefined,
  };
  if (code === undefined && requestId === '') return new ApiError(proxyText(status), { ...more, code: 'proxy' });
  const message = said.success ? said.data.message : `the server answered ${status} without a message`;
  return new ApiError(message, { ...more, code: code ?? 'unreadable' });
}

const errorOf = ({ response: { status, headers }, json }: Reply): ApiError =>
  refusalOf(status, (name) => headers.get(name), json);

/** Drops unknown members, which a newer server may send; the rest must match. */
function readAnswer<Answer>(schema: z.ZodType<Answer>, { response, json }: Reply): Answer {
  const first = schema.safeParse(json);
  if (first.success) return first.data;
  for (const issue of first.error.issues) {
    if (issue.code !== 'unrecognized_keys') continue;
    const holder = issue.path.reduce<unknown>((at, key) => (isHolder(at) ? Reflect.get(at, key) : undefined), json);
    if (isHolder(holder)) for (const key of issue.keys) Reflect.deleteProperty(holder, key);
  }
  const again = schema.safeParse(json);
  if (again.success) return again.data;
  throw new ApiError(
    'the answer of the server is not in the expected format; check the versions of server and client',
    {
      status: response.status,
      code: 'unreadable',
      requestId: response.headers.get('x-request-id') ?? '',
      cause: again.error,
    },
  );
}

const isHolder = (value: unknown): value is object => typeof value === 'object' && value !== null;
