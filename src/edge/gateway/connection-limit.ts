/**
 * Connection limit: a few connections above the limit are accepted to answer 503, the rest closed.
 * TLS sockets are matched to TCP sockets by addresses, because Node links neither to the other.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer, type TLSSocket } from 'node:tls';
import type { Log } from '../../control/index.ts';
const EXTRA = 64;
const REFUSAL_MS = 2_000;
const LOGGED_MS = 60_000;

export class ConnectionLimit {
  readonly #late = new WeakSet<Socket>();
  readonly #shaking = new Map<string, Socket>();
  readonly #limit: number;
  readonly #log: Pick<Log, 'warn'>;
  #loggedAtMs = -LOGGED_MS;
  #open = 0;

  constructor(server: Server, limit: number, log: Pick<Log, 'warn'>) {
    this.#limit = limit;
    this.#log = log;
    server.maxConnections = limit + EXTRA;
    server.on('connection', (socket) => {
      this.#open += 1;
      socket.once('close', () => (this.#open -= 1));
      this.#look(socket);
      if (server instanceof TlsServer) this.#shakes(socket);
    });
    server.on('secureConnection', (socket: TLSSocket) => this.#hasShaken(socket));
    server.on('drop', () => this.#logRefused());
  }

  /** True for connections above the limit; their requests get 503. */
  isLate(socket: Socket): boolean {
    return this.#late.has(socket);
  }

  /** Destroys sockets in the TLS handshake: a closing server would wait for them. */
  cutShaking(): void {
    for (const socket of this.#shaking.values()) socket.destroy();
  }

  #shakes(socket: Socket): void {
    const ends = endsOf(socket);
    this.#shaking.set(ends, socket);
    socket.once('close', () => {
      if (this.#shaking.get(ends) === socket) this.#shaking.delete(ends);
    });
  }

  #hasShaken(socket: TLSSocket): void {
    const ends = endsOf(socket);
    const below = this.#shaking.get(ends);
    if (below === undefined) return;
    this.#shaking.delete(ends);
    if (this.#late.has(below)) this.#late.add(socket);
  }

  #look(socket: Socket): void {
    if (this.#open <= this.#limit) return;
    this.#late.add(socket);
    const timer = setTimeout(() => socket.destroy(), REFUSAL_MS);
    socket.once('close', () => clearTimeout(timer));
    this.#logRefused();
  }

  #logRefused(): void {
    if (performance.now() - this.#loggedAtMs < LOGGED_MS) return;
    this.#loggedAtMs = performance.now();
    this.#log.warn(
      { connections: this.#limit },
      'the gateway has reached its limit of client connections and refuses new ones (docs/reference/gateway.md, limits)',
    );
  }
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
