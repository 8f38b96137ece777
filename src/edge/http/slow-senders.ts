/** Limits the time for a request body. Node's own limit would abort long uploads. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { answerWireError } from './http-server.ts';

/** A client that still sends reads no refusal: drop the rest of the body. */
const DROPPED_FOR_MS = 10_000;

export interface SlowSenders {
  exempt(request: IncomingMessage): void;
  discard(request: IncomingMessage, response: ServerResponse): void;
}

export function watchSlowSenders(
  app: FastifyInstance,
  { limitMs, checkedEveryMs }: { limitMs: number; checkedEveryMs: number },
): SlowSenders {
  // One body per connection. A sweep costs less than a listener for each request.
  const due = new Map<Socket, Due>();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const [socket, { atMs, request, cut }] of due) {
      const isOver = request.complete || request.destroyed;
      if (!isOver && nowMs < atMs) continue;
      due.delete(socket);
      if (!isOver) cut(request);
    }
  }, checkedEveryMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  app.addHook('preClose', async () => {
    for (const { request, response } of due.values())
      if (!request.complete && response.writableFinished) request.destroy();
  });
  app.addHook('onRequest', ({ raw }, reply, done) => {
    if (raw.headers['content-length'] !== undefined || raw.headers['transfer-encoding'] !== undefined)
      due.set(raw.socket, { request: raw, response: reply.raw, atMs: performance.now() + limitMs, cut: cutLate });
    done();
  });
  return {
    exempt: ({ socket }) => void due.delete(socket),
    discard(request, response) {
      if (request.complete || request.destroyed) return;
      due.set(request.socket, { request, response, atMs: performance.now() + DROPPED_FOR_MS, cut: destroy });
      request.resume();
    },
  };
}

interface Due {
  request: IncomingMessage;
  response: ServerResponse;
  atMs: number;
  cut: (request: IncomingMessage) => void;
}

const destroy = (request: IncomingMessage): void => void request.destroy();

function cutLate({ socket }: IncomingMessage): void {
  const tooLate = new Error('the body took too long');
  answerWireError(Object.assign(tooLate, { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket);
}
