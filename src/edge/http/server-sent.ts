/**
 * # Streams of Server-Sent Events (WHATWG HTML, 9.2)
 *
 * What is alike in all of them, whatever they tell:
 *
 * - The next thing is asked for when the socket has taken the last one: a slow reader costs what is under way and the kernel's buffers,
 *   nothing more. One that takes nothing for a minute is cut off; it resumes where it was.
 * - Whoever tells asks before whether the login or key still stands. A beat every 15 s asks, too, and keeps proxies from ending what looks
 *   dead.
 * - The edge ends them when it closes.
 */
import { once } from 'node:events';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { EVENT_STREAM_TYPE } from '../../contract/server-sent.ts';
import type { Access, Caller } from '../../control/control.ts';
import type { Log } from '../../control/log.ts';
import { whyLoginEnded } from './login-ended.ts';

const BEAT_MS = 15_000;
const RETRY_MS = 2_000;
/** Beats in a row for which the socket took nothing. */
const SILENT_BEATS = 4;
const END_MS = 1_000;

export interface StreamNeeds {
  access: Pick<Access, 'authenticate'>;
  log: Pick<Log, 'warn'>;
  beatMs?: number | undefined;
}

export interface Streams {
  /** Lends what ends the stream: it aborts when the edge closes, when the client leaves, and after the deed. */
  lend(deed: (ending: AbortController) => Promise<void>): Promise<void>;
  /** Takes the reply over, and ends it when `tell` has settled. */
  send(asked: Asked, tell: (telling: Telling) => Promise<void>): Promise<void>;
}

interface Asked {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  ending: AbortController;
}

export interface Telling {
  /** Resolves once there is room for more. Throws when the stream was ended. */
  write(text: string): Promise<void>;
  /** Whether the credential still stands; if not, the stream is ended in words. `anew`: an answer that is a second old will not do. */
  stands(anew: boolean): Promise<boolean>;
}

export function makeStreams(app: FastifyInstance, { access, log, beatMs = BEAT_MS }: StreamNeeds): Streams {
  const open = new Set<AbortController>();
  app.addHook('preClose', async () => {
    for (const ending of open) ending.abort();
  });

  /** Until it is called off: a comment when the socket has room, and the question whether the credential still stands. */
  function beat(asked: Asked): () => void {
    const { raw } = asked.reply;
    let silent = 0;
    let asking = false;
    const ask = async (): Promise<void> => {
      // A store that does not answer has ended no login.
      const why = await whyLoginEnded(access, asked).catch(() => null);
      if (why !== null && !asked.ending.signal.aborted) cut(asked, why);
    };
    const timer = setInterval(() => {
      silent = raw.writableNeedDrain ? silent + 1 : 0;
      if (silent >= SILENT_BEATS) raw.destroy();
      else if (silent === 0) raw.write(': beat\n\n');
      if (asking) return;
      asking = true;
      void ask().finally(() => (asking = false));
    }, beatMs);
    timer.unref();
    return () => clearInterval(timer);
  }

  return {
    async lend(deed) {
      const ending = new AbortController();
      open.add(ending);
      try {
        await deed(ending);
      } finally {
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
        if (!raw.write(text)) await once(raw, 'drain', { signal: ending.signal });
      };
      try {
        raw.write(`retry: ${RETRY_MS}\n`);
        await tell({
          write,
          async stands(anew) {
            const why = await whyLoginEnded(access, asked, { anew });
            if (why !== null) cut(asked, why);
            return why === null;
          },
        });
      } catch (error) {
        if (!ending.signal.aborted) log.warn({ err: error, requestId: request.id }, 'a stream was cut short');
      } finally {
        endBeats();
        raw.end();
        // Who does not read does not read the end either, and a server that stops waits for every connection.
        const late = setTimeout(() => raw.destroy(), END_MS).unref();
        raw.once('close', () => clearTimeout(late));
      }
    },
  };
}

function cut({ reply: { raw }, ending }: Asked, why: string): void {
  if (!raw.writableNeedDrain) raw.write(`: ${why}\n\n`);
  ending.abort();
}
