/** The gateway's HTTP/1.1 server. TLS clients choose HTTP/2 by ALPN. */
import { createServer, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Certificates } from '../tls-files.ts';
import { isOfBrowser, PARSED_SHARE } from '../full-cookies.ts';
import { answerInTurn, refuseHttp2, type PendingExchanges } from '../malformed-requests.ts';
import { malformed, sendRawAnswer } from './answers.ts';
import type { GatewayLimits } from './gateway-limits.ts';

export function makeListener(
  limits: Pick<GatewayLimits, 'maxHeaderBytes' | 'headMs' | 'idleClientMs'>,
  tls: Certificates | undefined,
  serveHttp2: (socket: TLSSocket) => void,
): Server {
  const options: ServerOptions = {
    maxHeaderSize: PARSED_SHARE * limits.maxHeaderBytes,
    headersTimeout: limits.headMs,
    // Bodies have no time limit.
    requestTimeout: 0,
    keepAliveTimeout: limits.idleClientMs,
    connectionsCheckingInterval: 5_000,
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
    noDelay: true,
    insecureHTTPParser: false,
    requireHostHeader: false,
    shouldUpgradeCallback: (req) => req.method === 'GET' && req.headers.upgrade?.toLowerCase() === 'websocket',
  };
  const server = tls === undefined ? createServer(options) : tlsServer(options, tls, limits.headMs, serveHttp2);
  // Node silently drops headers over its count limit; `maxHeaderSize` bounds them already.
  server.maxHeadersCount = 0;
  return server;
}

function tlsServer(
  options: ServerOptions,
  tls: Certificates,
  handshakeTimeout: number,
  serveHttp2: (socket: TLSSocket) => void,
): Server {
  const ALPNProtocols = ['h2', 'http/1.1'];
  const server = createTlsServer({ ...options, ...tls.first, minVersion: 'TLSv1.2', ALPNProtocols, handshakeTimeout });
  tls.follow((pair) => server.setSecureContext({ ...pair, minVersion: 'TLSv1.2' }));
  // Otherwise Node emits 'clientError' too, and an answer is impossible without a handshake.
  server.removeAllListeners('tlsClientError');
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  const serveHttp1 = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket) => {
    if (socket.alpnProtocol === 'h2') serveHttp2(socket);
    else for (const serve of serveHttp1) Reflect.apply(serve, server, [socket]);
  });
  return server;
}

/** `127.0.0.1:8081` or `[::1]:8081`. */
export function addressOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the gateway does not listen on a TCP port');
  return `${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
}

interface ClientError extends NodeJS.ErrnoException {
  rawPacket?: unknown;
}

export function answerClientError(
  socket: Duplex,
  error: ClientError,
  pending: PendingExchanges,
  maxHeaderBytes: number,
): void {
  if (socket.destroyed || error.code === 'ECONNRESET') return void socket.destroy();
  if (socket.writableEnded || refuseHttp2(socket, error)) return;
  answerInTurn(socket, pending, () => {
    if (pending.size > 0) return void socket.destroy();
    socket.on('error', () => socket.destroy());
    sendRawAnswer(socket, malformed(error.code, maxHeaderBytes), isOfBrowser(error.rawPacket) ? 'text/html' : '');
  });
}
