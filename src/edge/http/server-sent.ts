/**
 * Server-Sent Events (WHATWG HTML, 9.2). A minute without progress cuts the connection; a 15 s
 * heartbeat rechecks the login and keeps proxies from closing an idle connection.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EVENT_STREAM_TYPE } from '../../contract/server-sent.ts';
import type { Log } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { streamHeaders } from './reply-headers.ts';
import type { LoginHolder, LoginWatch } from './login-watch.ts';

const BEAT_MS = 15_000;
const RETRY_MS = 2_000;
/** Heartbeats without progress before the cut. */
const SILENT_BEATS = 4;
const END_MS = 1_000;

export interface StreamDeps {
  logins: LoginWatch;
  log: Pick<Log, 'warn'>;
  beatMs?: number | undefined;
}

export interface Streams {
  /** Runs a stream. Throws the reason if the login ends before the head. */
  open(target: StreamTarget, run: (stream: Stream) => Promise<void>): Promise<void>;
}

interface StreamTarget extends LoginHolder {
  request: FastifyRequest;
  reply: FastifyReply;
}

export interface Stream {
  /** Aborts at the end of the stream: edge closed, client gone, login revoked, or done. */
  abort: AbortController;
  /** Checks the credential and aborts if it ended. `revalidate` skips caches. */
  checkLogin(revalidate: boolean): Promise<boolean>;
  /** Hijacks the reply, and ends it when `run` settles. */
  send(run: (write: Write) => Promise<void>): Promise<void>;
}

/** Resolves when the buffer has space. Throws after the end of the stream. */
export type Write = (text: string) => Promise<void>;

/** Reads the first item before the head is sent: a refusal is then an ordinary answer. */
export async function firstOf<Item>(items: AsyncIterator<Item>): Promise<Item> {
  const first = await items.next();
  if (first.done === true) throw new Refusal('unavailable', 'the server is stopping', { retryAfterS: 1 });
  return first.value;
}

export function makeStreams(app: FastifyInstance, { logins, log, beatMs = BEAT_MS }: StreamDeps): Streams {
  const open = new Set<AbortController>();
  app.addHook('preClose', async () => {
    for (const ending of open) ending.abort();
  });

  function beat(raw: ServerResponse, checkLogin: Stream['checkLogin']): () => void {
    let silent = 0;
    let isChecking = false;
    const timer = setInterval(() => {
      silent = raw.writableNeedDrain ? silent + 1 : 0;
      if (silent >= SILENT_BEATS) raw.destroy();
      else if (silent === 0) raw.write(': beat\n\n');
      if (isChecking) return;
      isChecking = true;
      checkLogin(false)
        .catch(() => {}) // a store failure is not a revocation
        .finally(() => (isChecking = false));
    }, beatMs);
    timer.unref();
    return () => clearInterval(timer);
  }

  async function send(
    { request, reply }: StreamTarget,
    { abort, checkLogin }: Omit<Stream, 'send'>,
    run: (write: Write) => Promise<void>,
  ): Promise<void> {
    reply.hijack();
    const { raw } = reply;
    raw.on('close', () => abort.abort());
    raw.on('error', () => abort.abort());
    raw.writeHead(200, {
      ...streamHeaders(reply),
      'content-type': EVENT_STREAM_TYPE,
      // Turns off buffering in nginx.
      'x-accel-buffering': 'no',
      connection: 'close',
    });
    const endBeats = beat(raw, checkLogin);
    const write = async (text: string): Promise<void> => {
      abort.signal.throwIfAborted();
      if (!raw.write(text)) await once(raw, 'drain', { signal: abort.signal });
    };
    try {
      raw.write(`retry: ${RETRY_MS}\n`);
      await run(write);
    } catch (error) {
      if (!abort.signal.aborted) log.warn({ err: error, requestId: request.id }, 'a stream was aborted');
    } finally {
      endBeats();
      const why = endReason(abort);
      if (why !== null && !raw.writableNeedDrain) raw.write(`: ${why.message}\n\n`);
      raw.end();
      // A client that does not read would delay the stop of the server.
      const late = setTimeout(() => raw.destroy(), END_MS).unref();
      raw.once('close', () => clearTimeout(late));
    }
  }

  return {
    async open(target, run) {
      const ending = new AbortController();
      open.add(ending);
      const cut = (why: string): void => ending.abort(new Refusal('not_logged_in', why));
      const unwatch = logins.watch(target, cut);
      const checkLogin = async (revalidate: boolean): Promise<boolean> => {
        const why = await logins.whyEnded(target, { revalidate });
        if (why !== null) cut(why);
        return why === null;
      };
      try {
        const scope = { abort: ending, checkLogin };
        await run({ ...scope, send: (write) => send(target, scope, write) });
      } catch (error) {
        throw endReason(ending) ?? error;
      } finally {
        unwatch();
        open.delete(ending);
        ending.abort();
      }
    },
  };
}

/** Null unless the login or key ended the stream. */
function endReason({ signal }: AbortController): Refusal | null {
  const reason: unknown = signal.reason;
  return reason instanceof Refusal ? reason : null;
}
