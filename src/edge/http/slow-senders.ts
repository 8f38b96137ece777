/** Limits the time for a request body. Node's own limit would abort long uploads. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { answerOnSocket, TOO_SLOW } from './unrouted.ts';

/** A client that still sends reads no refusal: drop the rest of the body. */
const DROPPED_FOR_MS = 10_000;

export interface SlowSenders {
  exempt(request: IncomingMessage): void;
  discard(request: FastifyRequest, reply: FastifyReply): void;
}

export function watchSlowSenders(
  app: FastifyInstance,
  { limitMs, checkedEveryMs }: { limitMs: number; checkedEveryMs: number },
): SlowSenders {
  // One body per connection. A sweep costs less than a listener for each request.
  const due = new Map<Socket, Due>();
  const timer = setInterval(() => {
    const nowMs = performance.now();
    for (const [socket, late] of due) {
      const isOver = late.request.complete || late.request.destroyed;
      if (!isOver && nowMs < late.atMs) continue;
      due.delete(socket);
      if (!isOver) cut(late);
    }
  }, checkedEveryMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));
  app.addHook('preClose', async () => {
    for (const { request, response } of due.values())
      if (!request.complete && response.writableFinished) request.destroy();
  });
  app.addHook('onRequest', ({ raw, id }, reply, done) => {
    if (raw.headers['content-length'] !== undefined || raw.headers['transfer-encoding'] !== undefined)
      due.set(raw.socket, { id, request: raw, response: reply.raw, atMs: performance.now() + limitMs });
    done();
  });
  return {
    exempt: ({ socket }) => void due.delete(socket),
    discard({ raw, id }, reply) {
      if (raw.complete || raw.destroyed) return;
      due.set(raw.socket, { id, request: raw, response: reply.raw, atMs: performance.now() + DROPPED_FOR_MS });
      raw.resume();
    },
  };
}

interface Due {
  id: string;
  request: IncomingMessage;
  response: ServerResponse;
  atMs: number;
}

/** Says why, unless the client has its answer already. */
function cut({ id, request, response }: Due): void {
  if (response.headersSent) request.destroy();
  else answerOnSocket(request.socket, TOO_SLOW, id);
}
