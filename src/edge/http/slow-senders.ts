/**
 * A body has its time: who sends it slower than that is cut off, so that slow senders don't hold connections. Node has such a limit
 * for all requests of a server alike, which an upload of hours could not be let off from.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { answerWireError } from './wire-errors.ts';

/** A refusal is not read by a client that still sends, and a closed connection loses it: so long the rest is taken and dropped. */
const DROPPED_FOR_MS = 10_000;

export interface SlowSenders {
  /** The body is taken as long as it comes. */
  letOff(request: IncomingMessage): void;
  /** Nobody wants the rest of it. */
  drop(request: IncomingMessage, response: ServerResponse): void;
}

export function watchSlowSenders(
  app: FastifyInstance,
  { limitMs, checkedEveryMs }: { limitMs: number; checkedEveryMs: number },
): SlowSenders {
  const due = new Map<IncomingMessage, { atMs: number; cut: () => void; response: ServerResponse }>();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const [request, { atMs, cut }] of due) {
      if (nowMs < atMs) continue;
      due.delete(request);
      if (!request.complete) cut();
    }
  }, checkedEveryMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  app.addHook('preClose', async () => {
    // Their answers are out: a server that stops waits for nobody's rest.
    for (const [request, { response }] of due) if (response.writableFinished) request.destroy();
  });
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request;
    if (raw.headers['content-length'] !== undefined || raw.headers['transfer-encoding'] !== undefined) {
      const tooLate = new Error('the body took too long');
      const cut = (): void => answerWireError(Object.assign(tooLate, { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), raw.socket);
      due.set(raw, { atMs: performance.now() + limitMs, cut, response: reply.raw });
      raw.once('close', () => due.delete(raw));
    }
    done();
  });
  return {
    letOff: (request) => void due.delete(request),
    drop(request, response) {
      if (request.complete || request.destroyed) return;
      due.set(request, { atMs: performance.now() + DROPPED_FOR_MS, cut: () => request.destroy(), response });
      request.resume();
    },
  };
}
