/** HTTP server of the API: TLS, idle connections, and requests that are not valid HTTP. */
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

const REPLIES: Record<string, { status: string; message: string }> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    message: 'the headers are too large: at most 16 KiB are read',
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', message: 'the request took too long to arrive' },
};
const MALFORMED = { status: '400 Bad Request', message: 'this is not a valid HTTP request' };

export const MAX_HEADER_BYTES = 16 * 1024;

/** Answers requests that are not valid HTTP, on the bare socket. */
export function answerWireError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = REPLIES[error.code ?? ''] ?? MALFORMED;
  const body = JSON.stringify({ message });
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}`;
  socket.end(`${head}\r\nconnection: close\r\n\r\n${body}`, () => socket.destroy());
}
