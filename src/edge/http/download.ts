/** Sends downloads, and parses their range headers (RFC 9110, 14). */
import type { IncomingHttpHeaders } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Log } from '../../control/index.ts';
import { errorCode } from '../../domain/kernel/unknown-error.ts';
import { streamHeaders } from './reply-headers.ts';

/** Longest pause within a transfer. */
export const DEFAULT_STALLED_MS = 60_000;
const DISCONNECT_CODES: ReadonlySet<unknown> = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE']);

interface Download {
  what: string;
  request: FastifyRequest;
  reply: FastifyReply;
  status: number;
  headers: Record<string, string>;
  /** Null: the head only. */
  source: AsyncIterable<Uint8Array | string> | null;
  signal: AbortSignal;
  stalledMs: number | undefined;
  log: Pick<Log, 'warn'>;
}

/** Hijacks the reply. A failed transfer ends the connection: the client notices the loss. */
export async function sendDownload({
  request,
  reply,
  status,
  headers,
  source,
  signal,
  ...deps
}: Download): Promise<void> {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(status, { ...streamHeaders(reply), ...headers });
  if (source === null) return void raw.end();
  request.raw.socket.setTimeout(deps.stalledMs ?? DEFAULT_STALLED_MS);
  try {
    await pipeline(source, raw, { signal });
  } catch (error) {
    raw.destroy();
    if (!signal.aborted && !DISCONNECT_CODES.has(errorCode(error)))
      deps.log.warn({ err: error, requestId: request.id }, `${deps.what} was aborted`);
  }
}

/** `end` is exclusive. */
export interface ByteRange {
  start: number;
  end: number;
}

/** Several ranges count as `whole`, as the RFC allows. */
export type RequestedRange = ({ kind: 'part' } & ByteRange) | { kind: 'whole' } | { kind: 'outside' };

export const WHOLE_FILE: RequestedRange = { kind: 'whole' };
const RANGE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i;

export function parseRange(headers: IncomingHttpHeaders, etag: string, size: number): RequestedRange {
  const { range, 'if-range': ifRange } = headers;
  // A date is a weak validator: two changes within a second would mix two versions.
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return WHOLE_FILE;
  const [, first = '', last = ''] = RANGE.exec(range) ?? [];
  if (first === '' && last === '') return WHOLE_FILE;
  if (first === '') return part(Math.max(0, size - Number(last)), size);
  if (last !== '' && Number(last) < Number(first)) return WHOLE_FILE;
  return part(Number(first), last === '' ? size : Math.min(size, Number(last) + 1));
}

const part = (start: number, end: number): RequestedRange =>
  start < end ? { kind: 'part', start, end } : { kind: 'outside' };
