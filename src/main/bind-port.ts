/**
 * Binds a TCP port before its server is built: the port may be 0, and other parts need the address
 * first. Until the server takes over, each connection gets a 503.
 */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { Address } from './setting-types.ts';

const BODY = 'Berth is starting: try again in a moment.\n';
const STARTING =
  'HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\n' +
  `Content-Length: ${BODY.length}\r\nConnection: close\r\n\r\n${BODY}`;
const LINGER_MS = 1_000;
const MAX_CONNECTIONS = 64;

export interface BoundPort {
  port: number;
  /** Pass to `listen` of the server that takes over; close that server, not this one. */
  server: Server;
  close(): void;
}

/** Rejects with `EADDRINUSE`, for instance. With TLS, early connections are closed unanswered. */
export async function bindPort({ host, port }: Address, { isTls }: { isTls: boolean }): Promise<BoundPort> {
  const server = createServer(isTls ? (socket) => socket.destroy() : answerStarting);
  server.maxConnections = MAX_CONNECTIONS;
  await once(server.listen({ host, port }), 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP port was bound without an address');
  return { port: address.port, server, close: () => void server.close() };
}

function answerStarting(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  // Reads the request: unread bytes would reset the connection before the answer arrives.
  socket.resume();
  socket.setTimeout(LINGER_MS, () => socket.destroy());
  socket.end(STARTING);
}
