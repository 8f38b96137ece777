import type { RequestListener, Server, ServerOptions } from 'node:http';
import { createServer } from 'node:https';

export interface ApiTls {
  first: { cert: string; key: string };
  /** Calls back with each renewed certificate. */
  follow: (taken: (pair: { cert: string; key: string }) => void) => void;
}

const MIN_VERSION = 'TLSv1.2';
/** A closing server waits for handshakes. */
const HANDSHAKE_MS = 5_000;

export function tlsServer(options: ServerOptions, { first, follow }: ApiTls, handler: RequestListener): Server {
  const server = createServer(
    { ...options, ...first, minVersion: MIN_VERSION, handshakeTimeout: HANDSHAKE_MS },
    handler,
  );
  follow((pair) => server.setSecureContext({ ...pair, minVersion: MIN_VERSION }));
  return server;
}
