/**
 * Connections beyond those that may be open at once. A few of them are taken in to be told so: who asks anything gets a 503, who does not is
 * soon closed, and whatever still comes then is closed as it comes. Those that were there before go on.
 *
 * With TLS requests come by another socket than connections, and Node does not tell which is above which: the addresses of both ends do.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer, type TLSSocket } from 'node:tls';
import type { Log } from '../../control/index.ts';
/** Beyond the limit, to be told so. */
const TOLD = 64;
const TOLD_MS = 2_000;
const LOGGED_MS = 60_000;

export class Crowd {
  readonly #late = new WeakSet<Socket>();
  /** Of TLS, by both ends. */
  readonly #shaking = new Map<string, Socket>();
  readonly #limit: number;
  readonly #log: Pick<Log, 'warn'>;
  #loggedAtMs = -LOGGED_MS;
  #open = 0;

  constructor(server: Server, limit: number, log: Pick<Log, 'warn'>) {
    this.#limit = limit;
    this.#log = log;
    server.maxConnections = limit + TOLD;
    server.on('connection', (socket) => {
      this.#open += 1;
      socket.once('close', () => (this.#open -= 1));
      this.#look(socket);
      if (server instanceof TlsServer) this.#shakes(socket);
    });
    server.on('secureConnection', (socket: TLSSocket) => this.#hasShaken(socket));
    server.on('drop', () => this.#tell());
  }

  /** Its requests are to be answered with a 503. */
  isLate(socket: Socket): boolean {
    return this.#late.has(socket);
  }

  /** Whose handshake is not over yet: the server that closes knows nothing of them, and would wait. */
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
    const timer = setTimeout(() => socket.destroy(), TOLD_MS);
    socket.once('close', () => clearTimeout(timer));
    this.#tell();
  }

  #tell(): void {
    if (performance.now() - this.#loggedAtMs < LOGGED_MS) return;
    this.#loggedAtMs = performance.now();
    this.#log.warn(
      { connections: this.#limit },
      'as many clients are connected to the gateway as may be: further ones are turned away (docs/reference/gateway.md, limits)',
    );
  }
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
