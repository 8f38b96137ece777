/**
 * # Streams of Server-Sent Events (WHATWG HTML, 9.2)
 *
 * What is alike in all of them, whatever they tell:
 *
 * - The next thing is asked for when the socket has taken the last one: a slow reader costs what is under way and the kernel's buffers,
 *   nothing more. One that takes nothing for a minute is cut off; it resumes where it was.
 * - They end with their login or key (`login-ended.ts`). Whoever tells asks before whether it still stands, and so does a beat every 15 s,
 *   which keeps proxies from ending what looks dead.
 * - The edge ends them when it closes.
 */
import { once } from 'node:events';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EVENT_STREAM_TYPE } from '../../contract/server-sent.ts';
import type { Log } from '../../control/base/log.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Asker, OpenLogins } from './login-ended.ts';

const BEAT_MS = 15_000;
const RETRY_MS = 2_000;
/** Beats in a row for which the socket took nothing. */
const SILENT_BEATS = 4;
const END_MS = 1_000;

export interface StreamDeps {
  logins: OpenLogins;
  log: Pick<Log, 'warn'>;
  beatMs?: number | undefined;
}

export interface Streams {
  /** Throws why the login ended when that is before the head. */
  lend(asker: Asker, deed: (lent: Lent) => Promise<void>): Promise<void>;
  /** Takes the reply over, and ends it when `tell` has settled. */
  send(asked: Asked, tell: (telling: Telling) => Promise<void>): Promise<void>;
}

export interface Lent {
  /** Ends the stream: it aborts when the edge closes, when the client leaves, when the login or key has ended, and after the deed. */
  ending: AbortController;
  /** Whether the credential still stands; if not, `ending` aborts. `anew`: an answer that is a second old will not do. */
  stands(anew: boolean): Promise<boolean>;
}

interface Asked extends Lent {
  request: FastifyRequest;
  reply: FastifyReply;
}

export interface Telling {
  /** Resolves once there is room for more. Throws when the stream was ended. */
  write(text: string): Promise<void>;
}

export function makeStreams(app: FastifyInstance, { logins, log, beatMs = BEAT_MS }: StreamDeps): Streams {
  const open = new Set<AbortController>();
  app.addHook('preClose', async () => {
    for (const ending of open) ending.abort();
  });

  /** Until it is called off: a comment when the socket has room, and the question whether the credential still stands. */
  function beat({ reply: { raw }, stands }: Asked): () => void {
    let silent = 0;
    let asking = false;
    const timer = setInterval(() => {
      silent = raw.writableNeedDrain ? silent + 1 : 0;
      if (silent >= SILENT_BEATS) raw.destroy();
      else if (silent === 0) raw.write(': beat\n\n');
      if (asking) return;
      asking = true;
      stands(false)
        .catch(() => {}) // a store that does not answer has ended no login
        .finally(() => (asking = false));
    }, beatMs);
    timer.unref();
    return () => clearInterval(timer);
  }

  return {
    async lend(asker, deed) {
      const ending = new AbortController();
      open.add(ending);
      const cut = (why: string): void => ending.abort(new Refusal('not_logged_in', why));
      const unwatch = logins.watch(asker, cut);
      const stands = async (anew: boolean): Promise<boolean> => {
        const why = await logins.whyEnded(asker, { anew });
        if (why !== null) cut(why);
        return why === null;
      };
      try {
        await deed({ ending, stands });
      } catch (error) {
        throw whyCut(ending) ?? error;
      } finally {
        unwatch();
        open.delete(ending);
        ending.abort();
      }
    },
    async send(asked, tell) {
      const { request, reply, ending } = asked;
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
      const endBeats = beat(asked);
      const write = async (text: string): Promise<void> => {
        ending.signal.throwIfAborted();
        if (!raw.write(text)) await once(raw, 'drain', { signal: ending.signal });
      };
      try {
        raw.write(`retry: ${RETRY_MS}\n`);
        await tell({ write });
      } catch (error) {
        if (!ending.signal.aborted) log.warn({ err: error, requestId: request.id }, 'a stream was cut short');
      } finally {
        endBeats();
        const why = whyCut(ending);
        if (why !== null && !raw.writableNeedDrain) raw.write(`: ${why.message}\n\n`);
        raw.end();
        // Who does not read does not read the end either, and a server that stops waits for every connection.
        const late = setTimeout(() => raw.destroy(), END_MS).unref();
        raw.once('close', () => clearTimeout(late));
      }
    },
  };
}

/** Null when it is not the login or key that ended it. */
function whyCut({ signal }: AbortController): Refusal | null {
  const reason: unknown = signal.reason;
  return reason instanceof Refusal ? reason : null;
}
