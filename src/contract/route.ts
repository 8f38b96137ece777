/** Rows of the route table: their types and builders. The table itself is `routes.ts`. */
import type { z } from 'zod';
import type { LastingEffect } from '../domain/access/api-key.ts';
import type { Role } from '../domain/access/roles.ts';
import type { Subject } from '../domain/access/scopes.ts';
import type { ErrorCode } from './common.ts';

/** The role that a caller needs; `account`: any. */
export type Who = 'anyone' | 'account' | Exclude<Role, 'user'>;

interface Row<Kind extends string, Caller extends Who> {
  kind: Kind;
  /** Below `/api`; a URI template. */
  path: string;
  who: Caller;
  /** Changes nothing but the time of the last use. */
  reads: boolean;
  /** Subject of the scopes that an API key needs (`domain/access/scopes.ts`). */
  subject: Subject;
  /** `plain`: `{message}`. `problem`: RFC 9457 with `message`. */
  errors: 'plain' | 'problem';
  summary: string;
  details?: string;
  /** Origin of the rule: `ours`, or a section of `docs/interface.md`. */
  source: string;
}

export interface JsonRoute<
  Body extends z.ZodType = z.ZodType,
  Answer extends z.ZodType = z.ZodType,
  Caller extends Who = Who,
  Starts extends boolean = boolean,
> extends Row<'json', Caller> {
  method: 'GET' | 'POST';
  body: Body;
  answer: Answer;
  idempotent: boolean;
  /** Starts an operation, which `X-Operation-Id` names. */
  operation: Starts;
  /** Accepts `X-Berth-Wait-For-Capacity`. */
  waits: boolean;
  /** Accepts `X-Berth-Quote`. */
  quoted: boolean;
  /** Writes into a volume, which may be full. */
  fills: boolean;
  /** Needs the version that was read: a stale one is refused. */
  versioned: boolean;
  /** Null: what the request changes ends with the key, or reaches neither instances nor data. */
  lasting: LastingEffect | null;
  /** Members that limit what is granted: a misspelled one is refused, not ignored. */
  limiting: readonly string[];
  setsCookie: boolean;
  /** Open to a login that must set up a second factor before anything else. */
  settingUp: boolean;
  /** Sends large answers with gzip: they hold no secret (decision 33). */
  compressed: boolean;
}

export interface HeaderParameter {
  name: string;
  description: string;
  required?: boolean;
  values?: readonly string[];
  pattern?: string;
}

export interface Success {
  status: number;
  description: string;
  contentTypes?: readonly string[];
  /** Absent: text or bytes. */
  schema?: z.ZodType;
  etag?: boolean;
}

interface StreamRow<Kind extends string, Query extends z.ZodType = z.ZodType> extends Row<Kind, 'account' | 'admin'> {
  query: Query;
  headers: readonly HeaderParameter[];
  successes: readonly Success[];
  codes: readonly ErrorCode[];
}

/** Server-Sent Events. */
export interface EventsRoute<Query extends z.ZodType = z.ZodType> extends StreamRow<'events', Query> {
  method: 'GET';
}

export interface SocketRoute<Query extends z.ZodType = z.ZodType> extends StreamRow<'socket', Query> {
  method: 'GET';
  protocol: string;
}

/** Requests or answers whose bodies are bytes. */
export interface BytesRoute<Query extends z.ZodType = z.ZodType> extends StreamRow<'bytes', Query> {
  method: 'GET' | 'HEAD' | 'PUT' | 'DELETE';
  pathParameters: Readonly<Record<string, string>>;
  /** Description of the request body; absent: none. */
  upload?: string;
}

export type Route = JsonRoute | EventsRoute | SocketRoute | BytesRoute;

/** Changes something, or is for administrators alone. */
export const isAudited = ({ reads, who }: Pick<Route, 'reads' | 'who'>): boolean =>
  !reads || who === 'operator' || who === 'admin';

type Description = Pick<JsonRoute, 'summary'> &
  Partial<Omit<JsonRoute, 'kind' | 'path' | 'who' | 'reads' | 'subject' | 'body' | 'answer' | 'operation'>>;

/** Source of a rule, for `Row.source`. */
export const decision = (subject: string): string => `docs/interface.md §10, ${subject}`;

/** Routes of docs/interface.md ignore unknown members; all others refuse them. */
export const isOfInterface = ({ source }: Pick<Route, 'source'>): boolean => source.startsWith('docs/interface.md');
/** Names the ignored members. */
export const IGNORED_HEADER = 'X-Ignored-Fields';

const subjects: Readonly<Record<string, Subject>> = {
  admin: 'admin',
  balance: 'billing',
  billing: 'billing',
  events: 'account',
  image: 'instances',
  instance: 'instances',
  operation: 'instances',
  price: 'instances',
  region: 'instances',
  registry: 'account',
  resource: 'instances',
  storage: 'volumes',
  user: 'account',
  webhook: 'account',
};

/** By the first part of the path, and `admin` for all that needs a role. */
function subjectOf(who: Who, path: string): Subject {
  const subject = who === 'operator' || who === 'admin' ? 'admin' : subjects[path.split('/')[1] ?? ''];
  if (subject === undefined) throw new Error(`the path ${path} begins with no known subject: add it to route.ts`);
  return subject;
}

const jsonRouteFor =
  <Caller extends Who, Starts extends boolean>(
    who: Caller,
    { operation, reads = false }: { operation: Starts; reads?: boolean },
  ) =>
  <Body extends z.ZodType, Answer extends z.ZodType>(
    path: string,
    body: Body,
    answer: Answer,
    description: Description,
  ): JsonRoute<Body, Answer, Caller, Starts> => ({
    kind: 'json',
    method: 'POST',
    path,
    who,
    reads,
    subject: subjectOf(who, path),
    body,
    answer,
    idempotent: operation,
    operation,
    waits: false,
    quoted: false,
    fills: false,
    versioned: false,
    lasting: null,
    limiting: [],
    setsCookie: false,
    settingUp: false,
    compressed: false,
    errors: 'problem',
    source: 'ours',
    ...description,
  });

export const openRoute = jsonRouteFor('anyone', { operation: false });
export const readRoute = jsonRouteFor('account', { operation: false, reads: true });
export const jsonRoute = jsonRouteFor('account', { operation: false });
/** Starts an operation and accepts an idempotency key. */
export const operationRoute = jsonRouteFor('account', { operation: true });
export const operatorReadRoute = jsonRouteFor('operator', { operation: false, reads: true });
export const operatorRoute = jsonRouteFor('operator', { operation: false });
export const adminReadRoute = jsonRouteFor('admin', { operation: false, reads: true });
export const adminRoute = jsonRouteFor('admin', { operation: false });

/** Codes of every stream. */
export const streamCodes: readonly ErrorCode[] = [
  'not_logged_in',
  'forbidden',
  'field_value',
  'too_many_requests',
  'unavailable',
  'internal',
];
export const instanceStreamCodes: readonly ErrorCode[] = [
  ...streamCodes,
  'field_missing',
  'field_type',
  'not_found',
  'not_now',
  'unsupported',
];
export const HEARTBEAT = 'A comment follows at least every 15 seconds.';

const streamDefaults = { who: 'account', errors: 'problem', method: 'GET', source: 'ours', headers: [] } as const;

type StreamDescription<Kind extends StreamRow<string>> = Omit<
  Kind,
  'kind' | 'method' | 'who' | 'reads' | 'subject' | 'errors' | 'source' | 'headers' | 'path' | 'query'
> & { headers?: readonly HeaderParameter[] };

export const eventsRoute = <Query extends z.ZodType>(
  path: string,
  query: Query,
  description: StreamDescription<EventsRoute>,
): EventsRoute<Query> => ({
  kind: 'events',
  ...streamDefaults,
  reads: true,
  subject: subjectOf('account', path),
  path,
  query,
  ...description,
});

export const socketRoute = <Query extends z.ZodType>(
  path: string,
  query: Query,
  { protocol, ...description }: StreamDescription<SocketRoute>,
): SocketRoute<Query> => ({
  kind: 'socket',
  ...streamDefaults,
  reads: false,
  subject: subjectOf('account', path),
  path,
  query,
  protocol,
  headers: [{ name: 'Sec-WebSocket-Protocol', required: true, description: 'Subprotocol', values: [protocol] }],
  ...description,
});

export const bytesRoute = <Query extends z.ZodType>(
  method: BytesRoute['method'],
  path: string,
  query: Query,
  description: StreamDescription<BytesRoute>,
): BytesRoute<Query> => ({
  kind: 'bytes',
  ...streamDefaults,
  reads: method === 'GET' || method === 'HEAD',
  subject: subjectOf('account', path),
  method,
  path,
  query,
  ...description,
});

/** A download for administrators. */
export const adminBytesRoute = <Query extends z.ZodType>(
  path: string,
  query: Query,
  description: StreamDescription<BytesRoute>,
): BytesRoute<Query> => ({ ...bytesRoute('GET', path, query, description), who: 'admin', subject: 'admin' });
