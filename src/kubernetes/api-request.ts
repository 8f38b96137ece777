/** One request to the API server over the connection's keep-alive agent. */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiError, errorOfAnswer, errorOfConnection } from './api-error.ts';
import { isWire, type ApiObject, type Page } from './api-objects.ts';
import type { ClusterConnection } from './cluster-connection.ts';

export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  body?: unknown;
  contentType?: string;
  accept?: string;
  signal: AbortSignal;
}

export type QueryValues = NonNullable<ApiRequest['query']>;

/** Longest pause that a request takes for a server that asks for one (`Retry-After`). */
const MAX_PAUSE_MS = 5_000;
const MAX_ATTEMPTS = 4;

export const urlOf = ({ server }: ClusterConnection, path: string, query: QueryValues = {}): URL => {
  const url = new URL(server.href.replace(/\/+$/, '') + path);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url;
};

/** Sends, and repeats while the server asks for a pause. Throws `ApiError` or the abort reason. */
export async function send(connection: ClusterConnection, request: ApiRequest): Promise<IncomingMessage> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await sendOnce(connection, request);
    } catch (error) {
      request.signal.throwIfAborted();
      const pauseMs = pauseBefore(error, request, attempt);
      if (pauseMs === undefined) throw error;
      await delay(pauseMs, undefined, { signal: request.signal });
    }
  }
}

export async function sendForJson<T extends ApiObject | Page<ApiObject>>(
  connection: ClusterConnection,
  request: ApiRequest,
): Promise<T> {
  const answer = await send(connection, request);
  let parsed: unknown;
  try {
    parsed = JSON.parse(await text(answer));
  } catch (error) {
    request.signal.throwIfAborted();
    throw errorOfConnection(error, connection.server.host);
  }
  if (isWire<T>(parsed)) return parsed;
  throw new ApiError('unavailable', `the API server answered ${request.path} with no object`);
}

function pauseBefore(error: unknown, { method }: ApiRequest, attempt: number): number | undefined {
  if (!(error instanceof ApiError) || attempt >= MAX_ATTEMPTS) return undefined;
  const { failure, retryAfterMs = 1_000 } = error;
  if (failure === 'throttled' && retryAfterMs <= MAX_PAUSE_MS) return retryAfterMs;
  // An idle connection that the server closed at this moment: nothing was read of the request.
  const isStale = failure === 'away' && error.cause instanceof StaleConnection;
  return isStale && (method !== 'POST' || attempt === 1) ? 0 : undefined;
}

class StaleConnection extends Error {}

async function sendOnce(connection: ClusterConnection, request: ApiRequest): Promise<IncomingMessage> {
  const { method, path, query, body, contentType = 'application/json', accept = 'application/json', signal } = request;
  signal.throwIfAborted();
  const url = urlOf(connection, path, query);
  const { proxyAgent: _proxy, ...options } = await connection.options();
  const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const headers = {
    ...options.headers,
    Accept: accept,
    ...(payload === undefined ? {} : { 'Content-Type': contentType, 'Content-Length': payload.length }),
  };
  const answer = await exchange(url, { ...options, method, headers, signal }, payload).catch((error: unknown) => {
    signal.throwIfAborted();
    throw errorOfConnection(error, connection.server.host);
  });
  const httpStatus = answer.statusCode ?? 0;
  if (httpStatus >= 200 && httpStatus < 300) return answer;
  const failed = await text(answer).catch(() => '');
  signal.throwIfAborted();
  const retryAfter = answer.headers['retry-after'];
  throw errorOfAnswer({ httpStatus, body: failed, retryAfter, request: `${method} ${path}` });
}

function exchange(url: URL, options: RequestOptions, payload: Buffer | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, options, resolve);
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      const isStale = outgoing.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
      reject(isStale ? new StaleConnection('idle connection closed', { cause: error }) : error);
    });
    outgoing.end(payload);
  });
}
