/** `GET /api/instance/logs`: Server-Sent Events; with `download=true` the stored lines as text. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  LOG_END_EVENT,
  LOG_GAP_EVENT,
  LOG_LINE_EVENT,
  LOG_STATUS_EVENT,
  LOG_TEXT_TYPE,
} from '../../../contract/compute/log.ts';
import { routes } from '../../../contract/routes.ts';
import type { Caller, FollowedLog, LogRequest } from '../../../control/index.ts';
import { fromOf, presentLogLine } from './log-lines.ts';
import { sendDownload } from '../download.ts';
import { queryOf } from '../request.ts';
import { firstOf, type Stream, type Write } from '../server-sent.ts';
import { rowOptions, type StreamParts } from '../mount.ts';
import { makeValidate } from '../validate.ts';

const BATCH_BYTES = 64 * 1024;
const CHECK_EVERY_MS = 1_000;

const validate = makeValidate(routes.followLogs.query, { unknown: 'refuse' });

export function mountLogStream(app: FastifyInstance, deps: StreamParts): void {
  app.route({
    ...rowOptions(routes.followLogs),
    async handler(request, reply) {
      const caller = await deps.authorize(request, routes.followLogs, reply);
      const { download, times, instanceId, source, untilUnixMs, ...where } = validate(parseQuery(request));
      const selection = { instanceId, source, from: fromOf(where), untilMs: untilUnixMs };
      await deps.streams.open({ request, reply, caller }, async (stream) => {
        const context = { deps, request, reply, caller, selection, ...stream };
        if (download === 'true') await downloadLog(context, times === 'true');
        else await follow(context);
      });
    },
  });
}

function parseQuery(request: FastifyRequest): object {
  const query = queryOf(request, routes.followLogs.query);
  const last = request.headers['last-event-id'];
  if (last === undefined || last === '') return query;
  return { ...query, after: last, tail: undefined, sinceUnixMs: undefined };
}

interface LogRequestContext extends Stream {
  deps: StreamParts;
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  selection: LogRequest & { untilMs: number | undefined };
}

async function follow(context: LogRequestContext): Promise<void> {
  const { deps, request, reply, caller, selection, abort } = context;
  await using lines = deps.control.logs.follow(caller, selection, abort.signal);
  const begun = await firstOf(lines);
  const isOver = begun.kind === 'begun' && begun.over;
  const first = isOver && request.headers['last-event-id'] !== undefined ? await lines.next() : null;
  // 204 stops a browser from reconnecting.
  if (first?.value?.kind === 'end') return void (await reply.code(204).send());
  await context.send(async (write) => {
    const batcher = makeBatcher(write, rateLimitCheck(context.checkLogin));
    await batcher.add(first?.value ?? begun);
    for await (const one of lines) await batcher.add(one);
    await batcher.flush();
  });
}

/** Batches the lines of one event-loop turn. Waits for the socket above BATCH_BYTES. */
function makeBatcher(
  write: Write,
  isLoggedIn: () => Promise<boolean>,
): { add(one: FollowedLog): Promise<void>; flush(): Promise<void> } {
  let text = '';
  let sending: Promise<void> | null = null;
  const send = async (): Promise<void> => {
    await nextTurn();
    while (text !== '') {
      if (!(await isLoggedIn())) return;
      const piece = text;
      text = '';
      await write(piece);
    }
  };
  return {
    async add(one) {
      text += textOf(one);
      if (sending === null) {
        const now = send().finally(() => (sending = null));
        // The next call or `flush` reports the failure.
        now.catch(() => {});
        sending = now;
      }
      if (text.length >= BATCH_BYTES) await sending;
    },
    async flush() {
      await sending;
    },
  };
}

function rateLimitCheck(isLoggedIn: Stream['checkLogin']): () => Promise<boolean> {
  let checkedAtMs = performance.now();
  return async () => {
    if (performance.now() - checkedAtMs <= CHECK_EVERY_MS) return true;
    checkedAtMs = performance.now();
    return isLoggedIn(false);
  };
}

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

const GAP = 'lines before the next line may be missing: they are no longer stored';

const message = (event: string, data: object, id: string | null = null): string =>
  `${id === null ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

function textOf(item: FollowedLog): string {
  switch (item.kind) {
    case 'begun':
      return ': begun\n\n';
    case 'line': {
      const gap = item.gap ? message(LOG_GAP_EVENT, { why: GAP }) : '';
      return gap + message(LOG_LINE_EVENT, presentLogLine(item.line), item.position);
    }
    case 'status':
      return message(LOG_STATUS_EVENT, { status: item.status });
    case 'end':
      return message(LOG_END_EVENT, { why: item.why });
    default:
      return item satisfies never;
  }
}

async function downloadLog(context: LogRequestContext, times: boolean): Promise<void> {
  const { deps, request, reply, caller, selection, abort } = context;
  await using lines = deps.control.logs.all(caller, selection, abort.signal);
  await firstOf(lines);
  await sendDownload({
    what: 'a download of a log',
    request,
    reply,
    status: 200,
    headers: {
      'content-type': LOG_TEXT_TYPE,
      'content-disposition': `attachment; filename="${selection.instanceId}-${selection.source}.log"`,
      'content-security-policy': "default-src 'none'; sandbox",
    },
    source: piecesOf(lines, times, rateLimitCheck(context.checkLogin)),
    signal: abort.signal,
    stalledMs: deps.stalledMs,
    log: deps.log,
  });
}

async function* piecesOf(
  lines: AsyncIterable<{ atMs: number | null; text: string; cut: boolean } | null>,
  times: boolean,
  isLoggedIn: () => Promise<boolean>,
): AsyncGenerator<string> {
  let piece = '';
  for await (const line of lines) {
    if (line === null) continue;
    const time = times && line.atMs !== null ? `${new Date(line.atMs).toISOString()} ` : '';
    piece += `${time}${line.text}${line.cut ? ' […]' : ''}\n`;
    if (piece.length < BATCH_BYTES) continue;
    // A store failure is not a revocation.
    if (!(await isLoggedIn().catch(() => true))) return;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}
