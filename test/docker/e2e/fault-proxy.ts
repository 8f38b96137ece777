/**
 * A TCP proxy between a program and its engine or registry, which a test can take down, hold, slow
 * down or cut.
 */
import { once } from 'node:events';
import net, { type AddressInfo, type ListenOptions, type Socket, type TcpNetConnectOpts } from 'node:net';

/**
 * Bytes from the server: all at once, slowly, or `afterBytes` per connection and then silence
 * (`held`) or an end (`cut`).
 */
export type Flow = { kind: 'through' } | { kind: 'slow' } | { kind: 'held' | 'cut'; afterBytes: number };

/** Interval of slow pieces, each of 64 KiB at most. */
const PIECE_EVERY_MS = 40;

export interface Wire {
  /** Port it listens on; 0 on a path. */
  port: number;
  /** Number of open connections. */
  open(): number;
  /** Bytes from the server over all connections. */
  carried(): number;
  flow(next: Flow): void;
  /** Sets the target of new connections. */
  leadTo(next: End): void;
  /** Stops listening and cuts all connections. */
  down(): Promise<void>;
  up(): Promise<void>;
}

export type End = { path: string } | Pick<TcpNetConnectOpts, 'host' | 'port'>;

export async function makeWire({
  at,
  to,
}: {
  at: Pick<ListenOptions, 'path' | 'host' | 'port'>;
  to: End;
}): Promise<Wire> {
  let end = to;
  let flow: Flow = { kind: 'through' };
  let listening: ListenOptions = at;
  let carried = 0;
  const pairs = new Map<Socket, Socket>();

  const release = (): void => {
    for (const far of pairs.values()) far.resume();
  };
  const join = (near: Socket): void => {
    const far = net.connect({ ...end, allowHalfOpen: true });
    pairs.set(near, far);
    let passed = 0;
    const over = (): void => {
      near.destroy();
      far.destroy();
      pairs.delete(near);
    };
    near.on('error', over).on('close', over);
    far.on('error', over).on('close', over);
    near.pipe(far);
    far.on('end', () => near.end());
    far.on('data', (piece: Buffer) => {
      passed += piece.length;
      carried += piece.length;
      if (flow.kind === 'cut' && passed > flow.afterBytes) return over();
      const hasCapacity = near.write(piece);
      if (flow.kind === 'held' && passed > flow.afterBytes) far.pause();
      else if (flow.kind === 'slow') {
        far.pause();
        setTimeout(() => flow.kind !== 'held' && far.resume(), PIECE_EVERY_MS);
      } else if (!hasCapacity) {
        far.pause();
        near.once('drain', () => far.resume());
      }
    });
  };

  const server = net.createServer({ allowHalfOpen: true }, join);
  const up = async (): Promise<void> => {
    server.listen(listening);
    await once(server, 'listening');
    const address: AddressInfo | string | null = server.address();
    if (address !== null && typeof address === 'object') listening = { host: address.address, port: address.port };
  };
  await up();
  return {
    get port() {
      return listening.port ?? 0;
    },
    open: () => pairs.size,
    carried: () => carried,
    flow(next) {
      flow = next;
      release();
    },
    leadTo(next) {
      end = next;
    },
    async down() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const near of pairs.keys()) near.destroy();
      await closed;
    },
    up,
  };
}
