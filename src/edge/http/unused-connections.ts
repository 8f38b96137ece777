/**
 * Connections on which nothing has come yet. Browsers and programs open them in advance, and one more for each stream that they break
 * off; Node counts them as busy, and a server that closes would wait for them for a minute.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Answers what cuts them. */
export function watchUnusedConnections(server: Pick<Server, 'on'>): () => void {
  const sockets = new Set<Socket>();
  /** Over TLS a handshake has come on each. */
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
