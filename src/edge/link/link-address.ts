/**
 * Addresses of a link: a socket of one machine, whose mode protects it, or TCP between machines.
 * TCP is TLS with a shared key instead of certificates: both sides prove that they have it before
 * the first byte of HTTP, and each connection has keys of its own (ECDHE).
 */
import { Agent, createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Log } from '../../control/index.ts';

/** Path of a local socket, or an address of TCP. */
export type LinkAddress = string | SharedKeyAddress;

export interface SharedKeyAddress {
  host: string;
  port: number;
  /** 32 random bytes. */
  key: Uint8Array;
}

const IDENTITY = 'berth-link';
const HANDSHAKE_MS = 5_000;
/** No cipher with a certificate: a server without the key has nothing to offer. */
const TLS = { ciphers: 'ECDHE-PSK-CHACHA20-POLY1305', minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const;

export function connectLink(address: LinkAddress): Socket {
  if (typeof address === 'string') return connect(address);
  const { host, port, key: psk } = address;
  const pskCallback = () => ({ psk, identity: IDENTITY });
  // The key identifies the server: there is no certificate to compare with a name.
  return connectTls({ ...TLS, host, port, pskCallback, checkServerIdentity: () => undefined });
}

/** `maxSockets` undefined: each request has a connection of its own. */
export function linkAgent(address: LinkAddress, maxSockets?: number): Agent {
  const agent = maxSockets === undefined ? new Agent() : new Agent({ keepAlive: true, maxSockets });
  agent.createConnection = () => connectLink(address);
  return agent;
}

export function makeLinkListener(address: LinkAddress, serve: RequestListener, log: Pick<Log, 'error'>): Server {
  if (typeof address === 'string') return createServer(serve);
  const { key } = address;
  const pskCallback = (_: Socket, identity: string) => (identity === IDENTITY ? key : null);
  const server = createTlsServer({ ...TLS, pskCallback, handshakeTimeout: HANDSHAKE_MS }, serve);
  let isReported = false;
  server.on('secureConnection', () => (isReported = false));
  // Reports the first in a row: a client without the key can repeat it at will.
  server.on('tlsClientError', ({ code }: NodeJS.ErrnoException, { remoteAddress }) => {
    if (isReported) return;
    isReported = true;
    log.error({ code, remoteAddress }, 'the link refused a connection that does not have its key');
  });
  return server;
}
