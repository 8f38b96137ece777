/** Connections and listeners within a simulated instance's network. */
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { InsideSocket, InstanceAddress, InstanceNetwork, NetworkListener } from '../contract.ts';
import { addressOf, type Container } from './container.ts';
import { simulatedFault } from './injected-faults.ts';
import type { SimulatedHost } from './host.ts';

/** First port of the system's ephemeral range. */
const FIRST_FREE_PORT = 32_768;

export interface NetworkJoin {
  host: SimulatedHost;
  container: Container;
  attach: (lose: (fault: EngineFault) => void) => () => void;
}

export function joinNetwork({ host, container, attach }: NetworkJoin): InstanceNetwork {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const streams = new Set<Duplex>();
  const listening = new Set<() => void>();
  let over = false;
  const close = (): void => {
    if (over) return;
    over = true;
    detach();
    for (const leave of listening) leave();
    for (const stream of streams) stream.destroy();
    resolve();
  };
  const detach = attach(close);
  const checkOpen = (signal: AbortSignal): void => {
    if (signal.aborted) throw simulatedFault('unreachable', 'the call was aborted');
    if (over) throw simulatedFault('unreachable', 'this run of the instance has ended');
  };
  const track = (stream: Duplex): Duplex => {
    streams.add(stream);
    return stream.on('error', () => {}).on('close', () => streams.delete(stream));
  };

  return {
    async connect(at, signal) {
      checkOpen(signal);
      return track(connectWithin(host, container, at));
    },

    async listen(at, onConnection, signal): Promise<NetworkListener> {
      checkOpen(signal);
      const onLoopback = isLoopback(at.host);
      if (!onLoopback && !['', '0.0.0.0', '::', addressOf(container)].includes(at.host))
        throw simulatedFault('rejected', `${at.host} is not an address of ${container.spec.id}`);
      const accept = (connection: Duplex): void => onConnection(track(connection));
      const listenOn = (port: number): (() => void) | undefined =>
        host.hasService(container, port) ? undefined : host.guests.listen(container, port, { accept, onLoopback });
      let port = at.port === 0 ? FIRST_FREE_PORT : at.port;
      let leave = listenOn(port);
      while (leave === undefined && at.port === 0) leave = listenOn(++port);
      if (leave === undefined) throw simulatedFault('busy', `port ${port} of ${container.spec.id} is taken`);
      const stopListening = leave;
      listening.add(stopListening);
      return {
        port,
        close() {
          listening.delete(stopListening);
          stopListening();
        },
      };
    },

    ended,
    close,
  };
}

export function listenUnix(
  { host, container, attach }: NetworkJoin,
  onConnection: (connection: Duplex) => void,
): InsideSocket {
  const pathInside = `/etc/berth/sockets/${randomUUID()}`;
  const accept = (connection: Duplex): void => onConnection(connection.on('error', () => {}));
  const leave = host.guests.listen(container, pathInside, { accept, onLoopback: true });
  const close = (): void => {
    detach();
    leave?.();
  };
  const detach = attach(close);
  return { pathInside, close };
}

function connectWithin(host: SimulatedHost, from: Container, { host: name, port }: InstanceAddress): Duplex {
  const { hostname } = from.spec;
  const own = isLoopback(name) || [hostname, addressOf(from)].includes(name);
  if (!own && net.isIP(name) === 0)
    throw simulatedFault('not_found', `${hostname} cannot resolve the host name ${name}`);
  const to = own ? from : host.neighbourAt(from, name);
  if (to === undefined) throw simulatedFault('unreachable', `${hostname} has no route to ${name}`);
  const stream = host.connect(to, port, { fromLoopback: isLoopback(name) });
  if (stream === undefined) throw simulatedFault('busy', `nothing listens on port ${port} of ${name} (yet)`);
  return stream;
}

export const emptyNetwork: InstanceNetwork = {
  connect: () => Promise.reject(simulatedFault('unreachable', 'there is no route')),
  listen: () => Promise.reject(simulatedFault('unreachable', 'there is no route')),
  ended: Promise.resolve(),
  close: () => {},
};

const isLoopback = (name: string): boolean => name === 'localhost' || name === '::1' || name.startsWith('127.');
