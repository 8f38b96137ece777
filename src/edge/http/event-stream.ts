/**
 * # The live stream: `GET /api/events`
 *
 * Server-Sent Events (WHATWG HTML, 9.2) of the caller's account, outside of the table of routes because no answer ends it. The stream
 * begins with `retry` and the number it begins after; then each event with its number as `id`, so that a browser's EventSource resumes
 * by itself: it sends the last one in `Last-Event-ID`. A program may send `?after=<number>` instead; the header, being later, decides.
 * What can't be told is an event `gap`, whose id is where it goes on.
 *
 * - The next page is drawn when the socket has taken the last one: a slow reader costs a page and the kernel's buffers, nothing more. One
 *   that takes nothing for a minute is cut off; it resumes where it was.
 * - Before each page it is asked whether the login or key still stands: nothing is told after its end. A beat every 15 s asks, too, and
 *   keeps proxies from ending what looks dead.
 * - Control ends the streams when it stops, the edge when it closes.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EVENTS_PATH, EVENT_STREAM_TYPE, GAP_EVENT } from '../../contract/events.ts';
import { BASE_PATH } from '../../contract/routes.ts';
import type { Access, Caller, Events, ToldEvents } from '../../control/control.ts';
import type { Log } from '../../control/log.ts';
import { Refusal } from '../../domain/refusal.ts';
import { presentedCredential } from './credentials.ts';

const BEAT_MS = 15_000;
const RETRY_MS = 2_000;
/** Beats in a row for which the socket took nothing. */
const SILENT_BEATS = 4;
const END_MS = 1_000;
const SEQ = /^\d{1,15}$/;
/** Whoever reads of one of these may have been ended by it; an answer that is a second old would not know. */
const ENDINGS: ReadonlySet<string> = new Set(['account.loggedOut', 'account.passwordChanged', 'apiKey.deleted']);

export interface EventStreamNeeds {
  events: Events;
  access: Pick<Access, 'authenticate'>;
  /** Throws or passes, as for every route that needs a login. */
  admit: (request: FastifyRequest) => Promise<Caller>;
  log: Pick<Log, 'warn'>;
  beatMs?: number | undefined;
}

export function mountEventStream(app: FastifyInstance, needs: EventStreamNeeds): void {
  const open = new Set<AbortController>();
  app.get(BASE_PATH + EVENTS_PATH, {
    exposeHeadRoute: false,
    config: { style: { errors: 'problem', withCode: true } },
    async handler(request, reply) {
      const caller = await needs.admit(request);
      const after = askedFor(request);
      const ending = new AbortController();
      const pages = needs.events.follow(caller, after, ending.signal);
      open.add(ending);
      try {
        // Before the head: whoever is refused gets an answer like all others.
        const first = await pages.next();
        if (first.done) throw new Refusal('unavailable', 'the server is being stopped', { retryAfterS: 1 });
        await send({ needs, request, reply, caller, ending, pages }, first.value);
      } finally {
        open.delete(ending);
        ending.abort();
        await pages.return();
      }
    },
  });
  app.addHook('preClose', async () => {
    for (const ending of open) ending.abort();
  });
}

function askedFor({ headers, query }: FastifyRequest): number | null {
  const asked = typeof query === 'object' && query !== null ? new Map<string, unknown>(Object.entries(query)) : null;
  const header = headers['last-event-id'];
  const name = header === undefined || header === '' ? 'query parameter "after"' : 'header "Last-Event-ID"';
  const text = header === undefined || header === '' ? asked?.get('after') : header;
  if (text === undefined) return null;
  if (typeof text !== 'string' || !SEQ.test(text))
    throw new Refusal(
      'field_value',
      `the ${name} must be the number of an event; leave it out to begin with what happens now`,
    );
  return Number(text);
}

interface Stream {
  needs: EventStreamNeeds;
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  ending: AbortController;
  pages: AsyncGenerator<ToldEvents, void>;
}

async function send(stream: Stream, first: ToldEvents): Promise<void> {
  const { needs, request, reply, ending, pages } = stream;
  reply.hijack();
  const { raw } = reply;
  raw.on('close', () => ending.abort());
  raw.on('error', () => ending.abort());
  raw.writeHead(200, {
    'content-type': EVENT_STREAM_TYPE,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': request.id,
    // Told to nginx, which would gather the stream in pieces of its own.
    'x-accel-buffering': 'no',
    // A stream ends with its server: nothing follows on this connection.
    connection: 'close',
  });
  const endBeats = beat(stream, raw);
  try {
    await write(raw, `retry: ${RETRY_MS}\nid: ${first.lastSeq}\n\n`, ending.signal);
    for await (const page of pages) {
      const why = await whyEnded(
        stream,
        page.events.some(({ kind }) => ENDINGS.has(kind)),
      );
      if (why !== null) return cut(stream, why);
      await write(raw, textOf(page), ending.signal);
    }
  } catch (error) {
    if (!ending.signal.aborted) needs.log.warn({ err: error, requestId: request.id }, 'an event stream was cut short');
  } finally {
    endBeats();
    raw.end();
    // Who does not read does not read the end either, and a server that stops waits for every connection.
    const late = setTimeout(() => raw.destroy(), END_MS).unref();
    raw.once('close', () => clearTimeout(late));
  }
}

/** Resolves once there is room for more. */
async function write(raw: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  if (!raw.write(text)) await once(raw, 'drain', { signal });
}

function textOf({ gap, events, lastSeq }: ToldEvents): string {
  const texts = events.map(({ seq, kind, subjectId, atMs, dataText }) => {
    const members = JSON.stringify({ seq, kind, subjectId, atUnixMs: atMs }).slice(0, -1);
    return `id: ${seq}\nevent: ${kind}\ndata: ${members},"data":${dataText}}\n\n`;
  });
  if (!gap) return texts.join('');
  const goesOnAfter = events[0] ? events[0].seq - 1 : lastSeq;
  return `id: ${goesOnAfter}\nevent: ${GAP_EVENT}\ndata: ${JSON.stringify(gap)}\n\n${texts.join('')}`;
}

/** Why nothing may be told any more; null while the credential stands. Throws when that can't be asked. */
async function whyEnded({ needs, request, caller }: Stream, anew: boolean): Promise<string | null> {
  try {
    const { credential } = presentedCredential(request.headers);
    const { accountId } = await needs.access.authenticate(credential, { anew });
    return accountId === caller.accountId ? null : 'the login is another account now';
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_logged_in') return 'the login or key has ended: log in again';
    throw error;
  }
}

function cut({ reply: { raw }, ending }: Stream, why: string): void {
  if (!raw.writableNeedDrain) raw.write(`: ${why}\n\n`);
  ending.abort();
}

/** Until it is called off: a comment when the socket has room, and the question whether the credential still stands. */
function beat(stream: Stream, raw: ServerResponse): () => void {
  let silent = 0;
  let asking = false;
  const ask = async (): Promise<void> => {
    // A store that does not answer has ended no login.
    const why = await whyEnded(stream, false).catch(() => null);
    if (why !== null && !stream.ending.signal.aborted) cut(stream, why);
  };
  const timer = setInterval(() => {
    silent = raw.writableNeedDrain ? silent + 1 : 0;
    if (silent >= SILENT_BEATS) raw.destroy();
    else if (silent === 0) raw.write(': beat\n\n');
    if (asking) return;
    asking = true;
    void ask().finally(() => (asking = false));
  }, stream.needs.beatMs ?? BEAT_MS);
  timer.unref();
  return () => clearInterval(timer);
}
