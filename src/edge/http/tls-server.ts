/** The listener of the API where it speaks TLS itself. */
import type { RequestListener, Server, ServerOptions } from 'node:http';
import { createServer } from 'node:https';

export interface ApiTls {
  first: { cert: string; key: string };
  /** Told of certificates that take the place of the first. */
  follow: (taken: (pair: { cert: string; key: string }) => void) => void;
}

const MIN_VERSION = 'TLSv1.2';
/** A server that closes waits for handshakes, too. */
const HANDSHAKE_MS = 5_000;

export function tlsServer(options: ServerOptions, { first, follow }: ApiTls, handler: RequestListener): Server {
  const server = createServer(
    { ...options, ...first, minVersion: MIN_VERSION, handshakeTimeout: HANDSHAKE_MS },
    handler,
  );
  follow((pair) => server.setSecureContext({ ...pair, minVersion: MIN_VERSION }));
  return server;
}
