/**
 * Limits a listener's client connections from accept on, in total and per address
 * (`connection-shares.ts`). A few refused ones stay open for two seconds to get a 503. TLS sockets
 * are matched to TCP sockets by addresses, because Node links neither to the other.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer, type TLSSocket } from 'node:tls';
import { addressBucket, type Log } from '../control/index.ts';
import { withoutMapping, type AddressMatcher } from './address-list.ts';
import { ConnectionShares, type SharedConnection } from './connection-shares.ts';

const MAX_REFUSED = 64;
const REFUSAL_MS = 2_000;
const REPORT_MS = 60_000;

const ignore = (): void => {};

export interface ConnectionLimitOptions {
  listener: string;
  connections: number;
  isProxy: AddressMatcher;
  log: Pick<Log, 'warn'>;
}

interface Client extends SharedConnection {
  socket: Socket;
  isAdmitted: boolean;
  hasLogin: boolean;
}

export class ConnectionLimit {
  readonly #options: ConnectionLimitOptions;
  readonly #shares: ConnectionShares<Client>;
  readonly #clients = new WeakMap<Socket, Client>();
  readonly #shaking = new Map<string, Client>();
  readonly #sinceReport = { refused: 0, closed: 0 };
  #nextReport: NodeJS.Timeout | null = null;

  constructor(options: ConnectionLimitOptions) {
    this.#options = options;
    this.#shares = new ConnectionShares(options.connections);
  }

  /** Several servers may share one limit. */
  watch(server: Server): void {
    const { connections } = this.#options;
    server.maxConnections = connections + Math.min(MAX_REFUSED, connections);
    server.on('connection', (socket) => {
      const client = this.#accept(socket);
      if (server instanceof TlsServer) this.#startHandshake(client);
    });
    server.on('secureConnection', (socket: TLSSocket) => this.#endHandshake(socket));
    server.on('drop', () => this.#count('refused'));
    server.once('close', () => clearTimeout(this.#nextReport ?? undefined));
  }

  /** Call at each request. False above the limit: the request gets a 503, and no more. */
  admits(socket: Socket): boolean {
    const client = this.#clients.get(socket);
    if (client === undefined) return true;
    if (!client.hasLogin) this.#shares.use(client);
    return client.isAdmitted;
  }

  /** Keeps the connection open from its first valid login on, as one of the last account. */
  markLoggedIn(socket: Socket, account: string): void {
    const client = this.#clients.get(socket);
    if (client === undefined || (client.hasLogin && client.account === account)) return;
    this.#shares.protect(client, account);
    if (client.hasLogin) this.#shares.unprotect(client);
    client.hasLogin = true;
  }

  /** Keeps the connection open until the returned function is called, once. */
  beginExchange(socket: Socket, account: string): () => void {
    const client = this.#clients.get(socket);
    if (client === undefined || client.hasLogin) return ignore;
    this.#shares.protect(client, account);
    return () => this.#shares.unprotect(client);
  }

  /** Destroys sockets in the TLS handshake: a closing server would wait for them. */
  cutShaking(): void {
    for (const { socket } of this.#shaking.values()) socket.destroy();
  }

  #accept(socket: Socket): Client {
    const peer = withoutMapping(socket.remoteAddress ?? '');
    const isProxy = this.#options.isProxy(peer);
    const address = addressBucket(peer);
    const client: Client = { address, isProxy, account: '', socket, isAdmitted: false, hasLogin: false };
    const { isAdmitted, replaced } = this.#shares.admit(client);
    client.isAdmitted = isAdmitted;
    this.#clients.set(socket, client);
    socket.once('close', () => this.#shares.remove(client));
    if (replaced !== null) {
      replaced.socket.destroy();
      this.#count('closed');
    }
    if (!isAdmitted) {
      const timer = setTimeout(() => socket.destroy(), REFUSAL_MS);
      socket.once('close', () => clearTimeout(timer));
      this.#count('refused');
    }
    return client;
  }

  #startHandshake(client: Client): void {
    const ends = endsOf(client.socket);
    this.#shaking.set(ends, client);
    client.socket.once('close', () => {
      if (this.#shaking.get(ends) === client) this.#shaking.delete(ends);
    });
  }

  #endHandshake(socket: TLSSocket): void {
    const ends = endsOf(socket);
    const client = this.#shaking.get(ends);
    if (client === undefined) return;
    this.#shaking.delete(ends);
    this.#clients.set(socket, client);
  }

  #count(event: 'refused' | 'closed'): void {
    this.#sinceReport[event] += 1;
    if (this.#nextReport === null) this.#report();
  }

  /** Reports the first event at once, and later ones together, a minute after the last report. */
  #report(): void {
    const { listener, connections: limit, log } = this.#options;
    const { refused, closed } = this.#sinceReport;
    this.#nextReport = null;
    if (refused + closed === 0) return;
    const facts = { listener, limit, open: this.#shares.open, refused, closed, largest: this.#shares.largest() };
    log.warn(
      facts,
      `the ${listener} has reached its limit of client connections, in total or from one address: it closes unused ones without a login, then those of accounts above their share, and refuses new ones if there are none (docs/reference/gateway.md, connections)`,
    );
    Object.assign(this.#sinceReport, { refused: 0, closed: 0 });
    this.#nextReport = setTimeout(() => this.#report(), REPORT_MS).unref();
  }
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
