/** Listeners in the way of an engine, or between engine and driver. */
import { once } from 'node:events';
import net from 'node:net';
import path from 'node:path';
import type { Fixture } from '../../conformance/engine.ts';

/** Occupies the port, as another program of the host. */
export async function squat(address: string, port: number): Promise<() => Promise<void>> {
  const server = net.createServer().listen(port, address);
  await once(server, 'listening');
  return () => new Promise((resolve) => server.close(() => resolve()));
}

/** Forwards to a daemon. `cut` ends connections and refuses new ones until `mend`. */
export function makeCuttable(daemonPath: string): { listener: net.Server; cut: () => void; mend: () => void } {
  const open = new Set<net.Socket>();
  let there = true;
  const listener = net.createServer({ allowHalfOpen: true }, (socket) => {
    if (!there) return void socket.destroy();
    const daemon = net.connect({ path: daemonPath, allowHalfOpen: true });
    for (const one of [socket, daemon]) open.add(one.on('error', () => {}));
    socket.pipe(daemon).pipe(socket);
  });
  return {
    listener,
    cut() {
      there = false;
      for (const socket of open) socket.destroy();
    },
    mend: () => void (there = true),
  };
}

/** Runs a test with an engine behind a socket that can cut, stay silent or lie. */
export async function withSocket(
  { hostFolder }: Pick<Fixture, 'hostFolder'>,
  listener: net.Server,
  work: (socketPath: string) => Promise<void>,
): Promise<void> {
  const socketPath = path.join(await hostFolder(), 'engine.sock');
  const open = new Set<net.Socket>();
  listener.on('connection', (socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket)).on('error', () => {});
  });
  listener.listen(socketPath);
  await once(listener, 'listening');
  try {
    await work(socketPath);
  } finally {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => listener.close(resolve));
  }
}
