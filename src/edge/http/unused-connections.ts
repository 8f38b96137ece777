/**
 * Tracks connections without a request: Node counts them as busy and a closing server would wait.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

export function watchUnusedConnections(server: Pick<Server, 'on'>): () => void {
  const sockets = new Set<Socket>();
  /** TLS connections after the handshake. */
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
