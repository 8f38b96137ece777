/**
 * `/api/storage/volume/<id>/files/<path>`. Transfers have no time limit, but a minute without
 * progress, a disconnect, a revoked login or a deleted volume aborts a transfer and discards an
 * upload.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { id } from '../../../contract/common.ts';
import { FILE_TYPE } from '../../../contract/storage/file.ts';
import { routes } from '../../../contract/routes.ts';
import type { Caller, VolumePath, ReadableFile } from '../../../control/index.ts';
import { Refusal, volumeNotFound } from '../../../domain/kernel/refusal.ts';
import { parameterOf } from '../request.ts';
import { checkConditions } from '../conditions.ts';
import { DEFAULT_STALLED_MS, parseRange, sendDownload, WHOLE_FILE } from '../download.ts';
import type { ByteRange } from '../download.ts';
import { sendContinue } from '../expect-header.ts';
import { JSON_TYPE } from '../refusal-reply.ts';
import { streamHeaders } from '../reply-headers.ts';
import { rowOptions, type StreamParts } from '../mount.ts';
import { makeRefuseUnknownParameters } from '../unknown-members.ts';

const LENGTH = /^\d{1,15}$/;

interface FileContext {
  deps: StreamParts;
  caller: Caller;
  volumePath: VolumePath;
  request: FastifyRequest;
  reply: FastifyReply;
}

type FileRouteName = 'downloadFile' | 'headFile' | 'uploadFile' | 'deleteFile';

const handlers: Record<FileRouteName, (context: FileContext) => Promise<unknown>> = {
  downloadFile: download,
  headFile: download,
  uploadFile: upload,
  deleteFile: remove,
};

/** Mounts the route in a scope of its own: only there bodies stay unread. */
export function mountFile(app: FastifyInstance, deps: StreamParts, name: FileRouteName): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    addRoute(scope, deps, name);
  });
}

function addRoute(scope: FastifyInstance, deps: StreamParts, name: FileRouteName): void {
  const route = routes[name];
  const refuseUnknown = makeRefuseUnknownParameters(route.query);
  scope.route<{ Params: { id: string; '*': string } }>({
    ...rowOptions(route),
    async onRequest(request, reply) {
      await deps.authorize(request, route, reply);
      // Some clients send an invalid content type with a file.
      delete request.headers['content-type'];
    },
    async handler(request, reply) {
      const { caller, params } = request;
      if (!caller) throw new Error('a file was reached without a caller');
      refuseUnknown(request);
      const volumeId = id.safeParse(params.id);
      if (!volumeId.success) throw volumeNotFound('of the path');
      const unwatch = deps.logins.watch({ request, caller }, () => request.raw.socket.destroy());
      try {
        await handlers[name]({ deps, caller, volumePath: { id: volumeId.data, path: params['*'] }, request, reply });
      } finally {
        unwatch();
      }
    },
  });
}

const etagOf = ({ version }: Pick<ReadableFile, 'version'>): string => `"${version}"`;

function dispositionOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

function download({ deps, caller, volumePath, request, reply }: FileContext): Promise<void> {
  return deps.control.files.read(caller, volumePath, async (file, signal) => {
    const { span, ...head } = answerOf(file, volumePath, request, reply);
    const source = span && file.bytes(span.start, span.end);
    const what = 'a download';
    await sendDownload({ what, request, reply, ...head, source, signal, stalledMs: deps.stalledMs, log: deps.log });
  });
}

/** Throws for failed conditions and bad ranges. A null `span` means the head only. */
function answerOf(
  file: ReadableFile,
  { path }: VolumePath,
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
): { status: number; span: ByteRange | null; headers: Record<string, string> } {
  const { sizeBytes, modifiedAtMs } = file;
  const etag = etagOf(file);
  const verdict = checkConditions(headers, { etag, modifiedAtMs });
  if (verdict === 'changed') throw new Refusal('precondition_failed', whatChanged(headers));
  const always = { ...DOWNLOAD_ONLY_HEADERS, etag, 'last-modified': new Date(modifiedAtMs).toUTCString() };
  if (verdict === 'unchanged') return { status: 304, span: null, headers: always };
  const wanted = method === 'HEAD' ? WHOLE_FILE : parseRange(headers, etag, sizeBytes);
  if (wanted.kind === 'outside') {
    reply.header('content-range', `bytes */${sizeBytes}`);
    throw new Refusal('range_not_satisfiable', `the range is outside of the file, which has ${sizeBytes} bytes`);
  }
  const isPart = wanted.kind === 'part';
  const span = isPart ? wanted : { start: 0, end: sizeBytes };
  return {
    status: isPart ? 206 : 200,
    span: method === 'HEAD' ? null : span,
    headers: {
      ...always,
      'content-type': FILE_TYPE,
      'content-disposition': dispositionOf(path),
      'content-length': String(span.end - span.start),
      ...(isPart ? { 'content-range': `bytes ${span.start}-${span.end - 1}/${sizeBytes}` } : {}),
    },
  };
}

const whatChanged = ({ 'if-match': ifMatch }: IncomingHttpHeaders): string =>
  ifMatch === undefined
    ? 'the file has changed since the date in "If-Unmodified-Since"'
    : 'the file has changed: no tag in "If-Match" matches the file';

/** Prevents rendering, and embedding by other origins. */
const DOWNLOAD_ONLY_HEADERS = {
  'accept-ranges': 'bytes',
  'content-security-policy': "default-src 'none'; sandbox",
  'cross-origin-resource-policy': 'same-origin',
};

async function upload({ deps, caller, volumePath, request, reply }: FileContext): Promise<void> {
  const { raw } = request;
  try {
    const { onlyNew, sizeBytes } = uploadOf(request);
    deps.slowSenders.exempt(raw);
    const written = await deps.control.files.write(caller, volumePath, {
      onlyNew,
      sizeBytes,
      source(signal) {
        signal.addEventListener('abort', () => raw.destroy(), { once: true });
        return piecesOf(request, reply, deps.stalledMs ?? DEFAULT_STALLED_MS);
      },
    });
    const { sizeBytes: bytes, modifiedAtMs: modifiedAtUnixMs, created } = written;
    reply
      .code(created ? 201 : 200)
      .headers({ ...streamHeaders(reply), etag: etagOf(written), 'content-type': JSON_TYPE });
    await reply.send(JSON.stringify({ sizeBytes: bytes, modifiedAtUnixMs }));
  } catch (error) {
    if (raw.destroyed && !raw.complete)
      throw new Refusal('body_not_json', 'the request ended before its body was complete');
    deps.slowSenders.discard(request, reply);
    throw error;
  }
}

/** Begins after all checks. The timeout runs while waiting for the client, not during writes. */
async function* piecesOf(
  { raw }: FastifyRequest,
  reply: FastifyReply,
  stalledMs: number,
): AsyncGenerator<Uint8Array, void> {
  sendContinue(raw, reply.raw);
  // A `for await` loop would close the connection on exit, before the refusal is sent.
  const pieces: AsyncIterator<Uint8Array> = raw.iterator();
  for (;;) {
    raw.socket.setTimeout(stalledMs);
    const { done, value } = await pieces.next();
    raw.socket.setTimeout(0);
    if (done) return;
    yield value;
  }
}

function refuse(header: string, words: string): never {
  throw new Refusal('field_value', `the header "${header}" ${words}`);
}

/** A change cannot compare and act in one step. */
function refuseConditions(headers: IncomingHttpHeaders, change: string): void {
  for (const name of ['If-Match', 'If-Unmodified-Since'])
    if (headers[name.toLowerCase()] !== undefined) refuse(name, `is not supported for ${change}; leave the header out`);
}

function uploadOf({ headers }: FastifyRequest): { onlyNew: boolean; sizeBytes: number | null } {
  const { 'if-none-match': condition, 'content-length': length, 'content-encoding': encoding } = headers;
  if (condition !== undefined && condition.trim() !== '*')
    refuse('If-None-Match', 'can only be * for an upload, which refuses to replace a file');
  refuseConditions(headers, 'an upload');
  if (headers['content-range'] !== undefined) refuse('Content-Range', 'is not supported: upload the whole file');
  if (encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity')
    refuse('Content-Encoding', 'is not supported: send the bytes of the file without an encoding');
  if (length !== undefined && !LENGTH.test(length)) refuse('Content-Length', 'is not the size of a file');
  return { onlyNew: condition !== undefined, sizeBytes: length === undefined ? null : Number(length) };
}

async function remove({ deps, caller, volumePath, request, reply }: FileContext): Promise<void> {
  refuseConditions(request.headers, 'a delete');
  const recursive = parameterOf(request, 'recursive') ?? 'false';
  if (recursive !== 'true' && recursive !== 'false')
    throw new Refusal('field_value', 'the query parameter "recursive" must be true or false');
  await deps.control.files.delete(caller, { ...volumePath, recursive: recursive === 'true' });
  await reply.code(204).headers(streamHeaders(reply)).send();
}
