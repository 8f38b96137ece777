/** Rows of the route table: their types and builders. The table itself is `routes.ts`. */
import type { z } from 'zod';
import type { ErrorCode } from './common.ts';

export type Who = 'anyone' | 'account' | 'admin';

interface Row<Kind extends string, Caller extends Who> {
  kind: Kind;
  /** Below `/api`; a URI template. */
  path: string;
  who: Caller;
  /** `plain`: `{message}`. `problem`: RFC 9457 with `message`. */
  errors: 'plain' | 'problem';
  summary: string;
  /** Further sentences for the API document. */
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
  /** Accepts an `Idempotency-Key`. */
  idempotent: boolean;
  /** Starts an operation, which `X-Operation-Id` names. */
  operation: Starts;
  /** Accepts `X-Berth-Wait-For-Capacity`. */
  waits: boolean;
  /** Writes into a volume, which may be full. */
  fills: boolean;
  /** Sets or clears the access cookie. */
  setsCookie: boolean;
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

interface StreamRow<Kind extends string, Query extends z.ZodType = z.ZodType> extends Row<Kind, 'account'> {
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
  /** WebSocket subprotocol. */
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

type Description = Pick<JsonRoute, 'summary'> &
  Partial<Omit<JsonRoute, 'kind' | 'path' | 'who' | 'body' | 'answer' | 'operation'>>;

const jsonRouteFor =
  <Caller extends Who, Starts extends boolean>(who: Caller, operation: Starts) =>
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
    body,
    answer,
    idempotent: operation,
    operation,
    waits: false,
    fills: false,
    setsCookie: false,
    compressed: false,
    errors: 'problem',
    source: 'ours',
    ...description,
  });

export const openRoute = jsonRouteFor('anyone', false);
export const adminRoute = jsonRouteFor('admin', false);
export const jsonRoute = jsonRouteFor('account', false);
/** Starts an operation and accepts an idempotency key. */
export const operationRoute = jsonRouteFor('account', true);

const streamDefaults = { who: 'account', errors: 'problem', method: 'GET', source: 'ours', headers: [] } as const;

type StreamDescription<Kind extends StreamRow<string>> = Omit<
  Kind,
  'kind' | 'method' | 'who' | 'errors' | 'source' | 'headers' | 'path' | 'query'
> & { headers?: readonly HeaderParameter[] };

export const eventsRoute = <Query extends z.ZodType>(
  path: string,
  query: Query,
  description: StreamDescription<EventsRoute>,
): EventsRoute<Query> => ({ kind: 'events', ...streamDefaults, path, query, ...description });

export const socketRoute = <Query extends z.ZodType>(
  path: string,
  query: Query,
  { protocol, ...description }: StreamDescription<SocketRoute>,
): SocketRoute<Query> => ({
  kind: 'socket',
  ...streamDefaults,
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
): BytesRoute<Query> => ({ kind: 'bytes', ...streamDefaults, method, path, query, ...description });
