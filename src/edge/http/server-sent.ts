/**
 * Server-Sent Events (WHATWG HTML, 9.2). A minute without progress cuts the connection; a 15 s
 * heartbeat rechecks the login and keeps proxies from closing an idle connection.
 */
import { once } from 'node:events';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EVENT_STREAM_TYPE } from '../../contract/server-sent.ts';
import type { Log } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
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
  open(holder: LoginHolder, run: (scope: StreamScope) => Promise<void>): Promise<void>;
  /** Hijacks the reply, and ends it when `run` settles. */
  send(target: StreamTarget, run: (writer: StreamWriter) => Promise<void>): Promise<void>;
}

export interface StreamScope {
  /** Aborts at the end of the stream: edge closed, client gone, login revoked, or done. */
  abort: AbortController;
  /** Checks the credential and aborts if it ended. `revalidate` skips caches. */
  checkLogin(revalidate: boolean): Promise<boolean>;
}

interface StreamTarget extends StreamScope {
  request: FastifyRequest;
  reply: FastifyReply;
}

export interface StreamWriter {
  /** Resolves when the buffer has space. Throws after the end of the stream. */
  write(text: string): Promise<void>;
}

export function makeStreams(app: FastifyInstance, { logins, log, beatMs = BEAT_MS }: StreamDeps): Streams {
  const open = new Set<AbortController>();
  app.addHook('preClose', async () => {
    for (const ending of open) ending.abort();
  });

  function beat({ reply: { raw }, checkLogin }: StreamTarget): () => void {
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

  return {
    async open(holder, run) {
      const ending = new AbortController();
      open.add(ending);
      const cut = (why: string): void => ending.abort(new Refusal('not_logged_in', why));
      const unwatch = logins.watch(holder, cut);
      const checkLogin = async (revalidate: boolean): Promise<boolean> => {
        const why = await logins.whyEnded(holder, { revalidate });
        if (why !== null) cut(why);
        return why === null;
      };
      try {
        await run({ abort: ending, checkLogin });
      } catch (error) {
        throw endReason(ending) ?? error;
      } finally {
        unwatch();
        open.delete(ending);
        ending.abort();
      }
    },
    async send(target, run) {
      const { request, reply, abort } = target;
      reply.hijack();
      const { raw } = reply;
      raw.on('close', () => abort.abort());
      raw.on('error', () => abort.abort());
      raw.writeHead(200, {
        'content-type': EVENT_STREAM_TYPE,
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'x-request-id': request.id,
        // Turns off buffering in nginx.
        'x-accel-buffering': 'no',
        connection: 'close',
      });
      const endBeats = beat(target);
      const write = async (text: string): Promise<void> => {
        abort.signal.throwIfAborted();
        if (!raw.write(text)) await once(raw, 'drain', { signal: abort.signal });
      };
      try {
        raw.write(`retry: ${RETRY_MS}\n`);
        await run({ write });
      } catch (error) {
        if (!abort.signal.aborted) log.warn({ err: error, requestId: request.id }, 'a stream was cut short');
      } finally {
        endBeats();
        const why = endReason(abort);
        if (why !== null && !raw.writableNeedDrain) raw.write(`: ${why.message}\n\n`);
        raw.end();
        // A client that does not read would delay the stop of the server.
        const late = setTimeout(() => raw.destroy(), END_MS).unref();
        raw.once('close', () => clearTimeout(late));
      }
    },
  };
}

/** Null unless the login or key ended the stream. */
function endReason({ signal }: AbortController): Refusal | null {
  const reason: unknown = signal.reason;
  return reason instanceof Refusal ? reason : null;
}
