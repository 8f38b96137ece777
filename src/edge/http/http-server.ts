/** HTTP server of the API: TLS and idle connections. */
import type { RequestListener, Server, ServerOptions } from 'node:http';
import { createServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Certificates } from '../tls-files.ts';

const MIN_VERSION = 'TLSv1.2';
/** A closing server waits for handshakes. */
const HANDSHAKE_MS = 5_000;

export function tlsServer(options: ServerOptions, { first, follow }: Certificates, handler: RequestListener): Server {
  const server = createServer(
    { ...options, ...first, minVersion: MIN_VERSION, handshakeTimeout: HANDSHAKE_MS },
    handler,
  );
  follow((pair) => server.setSecureContext({ ...pair, minVersion: MIN_VERSION }));
  return server;
}

/** Tracks connections without a request, which Node counts as busy: a closing server would wait. */
export function watchUnusedConnections(server: Pick<Server, 'on'>): () => void {
  const sockets = new Set<Socket>();
  const secured = new Set<Socket>();
  const watch =
    (among: Set<Socket>) =>
    (socket: Socket): void => {
      among.add(socket);
      socket.once('close', () => among.delete(socket));
    };
  server.on('connection', watch(sockets));
  server.on('secureConnection', watch(secured));
  server.on('request', ({ socket }) => secured.delete(socket));
  return () => {
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    for (const socket of secured) socket.destroy();
  };
}
