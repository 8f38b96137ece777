/** Node ports of a simulated host and their holders, with real listeners on request. */
import { once } from 'node:events';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import type { NodePort } from '../../domain/compute/instance.ts';
import { errorCode } from '../../domain/kernel/unknown-error.ts';
import { simulatedFault } from './injected-faults.ts';

const foreignProgram = Symbol('another program of the host');

export interface HostPorts {
  /**
   * Opens all or none. Throws `busy` with `takenNodePort`. `dial` connects to the service inside.
   */
  open(
    holder: string,
    address: string,
    pairs: readonly NodePort[],
    dial: (port: number) => Duplex | undefined,
  ): Promise<void>;
  close(holder: string, pairs: readonly NodePort[]): Promise<void>;
  occupy(nodePort: number): void;
  free(nodePort: number): void;
  stop(): Promise<void>;
}

export function makeHostPorts({ publish }: { publish: boolean }): HostPorts {
  const holders = new Map<number, string | typeof foreignProgram>();
  const listeners = new Map<number, { server: net.Server; sockets: Set<net.Socket> }>();

  const busy = (nodePort: number): Error =>
    simulatedFault('busy', `node port ${nodePort} is taken by another program of the host`, {
      reason: 'portTaken',
      takenNodePort: nodePort,
    });

  async function listen(
    address: string,
    { port, nodePort }: NodePort,
    dial: (port: number) => Duplex | undefined,
  ): Promise<void> {
    const sockets = new Set<net.Socket>();
    const server = net.createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      const inside = dial(port);
      if (inside === undefined) socket.destroy();
      else join(socket, inside);
    });
    server.listen(nodePort, address);
    try {
      await once(server, 'listening');
    } catch (error) {
      if (errorCode(error) === 'EADDRINUSE') throw busy(nodePort);
      throw simulatedFault('rejected', `node port ${nodePort} cannot be opened on ${address}: ${String(error)}`);
    }
    listeners.set(nodePort, { server, sockets });
  }

  async function shut(nodePort: number): Promise<void> {
    const listener = listeners.get(nodePort);
    if (listener === undefined) return;
    listeners.delete(nodePort);
    for (const socket of listener.sockets) socket.destroy();
    await new Promise((resolve) => listener.server.close(resolve));
  }

  async function close(holder: string, pairs: readonly NodePort[]): Promise<void> {
    for (const { nodePort } of pairs) {
      if (holders.get(nodePort) !== holder) continue;
      // Frees before closing: a start right after must not lose the port.
      holders.delete(nodePort);
      await shut(nodePort);
    }
  }

  return {
    async open(holder, address, pairs, dial) {
      const taken = pairs.find(({ nodePort }) => (holders.get(nodePort) ?? holder) !== holder);
      if (taken !== undefined) throw busy(taken.nodePort);
      for (const { nodePort } of pairs) holders.set(nodePort, holder);
      if (!publish) return;
      try {
        for (const pair of pairs) {
          if (!listeners.has(pair.nodePort)) await listen(address, pair, dial);
        }
      } catch (fault) {
        await close(holder, pairs);
        throw fault;
      }
    },
    close,
    occupy: (nodePort) => void holders.set(nodePort, foreignProgram),
    free: (nodePort) => {
      if (holders.get(nodePort) === foreignProgram) holders.delete(nodePort);
    },
    async stop() {
      await Promise.all([...listeners.keys()].map(shut));
    },
  };
}

/** Pipes both ways with half-close; one side's failure closes the other. */
function join(one: Duplex, other: Duplex): void {
  one.on('error', () => other.destroy()).on('close', () => other.destroy());
  other.on('error', () => one.destroy());
  one.pipe(other).pipe(one);
}
