/**
 * Connections on which nothing has come yet. Browsers and programs open them in advance, and one more for each stream that they break
 * off; Node counts them as busy, and a server that closes would wait for them for a minute.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Answers what cuts them. */
export function watchSpareConnections(server: Pick<Server, 'on'>): () => void {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return () => {
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  };
}
