/**
 * # Joining an instance's network
 *
 * Only a whole process can enter a network namespace. A small child process (`child.mjs`) enters,
 * opens connections and listeners there, and passes the handles. The child starts on demand, exits
 * when idle, and shares no file, process or user with the instance. The engine's path names the
 * namespace of this run: a process id may be reused, and would lead to the host's own network.
 */
import net from 'node:net';
import type { ContainerInspectInfo } from 'dockerode';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { InstanceAddress, InstanceNetwork, NetworkListener } from '../../contract.ts';
import { noAddress, openingFault, runEnded } from '../../network-faults.ts';
import type { RunEnds } from '../container/run-ends.ts';
import { faultOf } from '../../../docker/faults.ts';
import { resolveName } from './names.ts';
import { makeNetworkChild, OpenError, type SocketRequest } from './parent.ts';

export function joinNetwork(
  id: InstanceId,
  info: ContainerInspectInfo,
  { nsenter, runEnds }: { nsenter: string; runEnds: RunEnds },
): InstanceNetwork {
  const child = makeNetworkChild({ nsenter, network: info.NetworkSettings.SandboxKey });
  const files = { hosts: info.HostsPath, resolvConf: info.ResolvConfPath };
  const sockets = new Set<net.Socket>();
  const servers = new Set<net.Server>();
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  let closed = false;

  const close = (): void => {
    if (closed) return;
    closed = true;
    unsubscribe();
    child.stop();
    for (const server of servers) server.close();
    for (const socket of sockets) socket.destroy();
    resolve();
  };
  const unsubscribe = runEnds.onEnd(id, info, close);

  const checkOpen = (signal: AbortSignal): void => {
    if (signal.aborted) throw faultOf(signal.reason);
    if (closed) throw runEnded();
  };

  /** Destroys the socket with the run; the caller may ignore its errors. */
  function track(socket: net.Socket): net.Socket {
    if (closed) return socket.destroy();
    sockets.add(socket);
    // A passed handle lacks the flag, and would end when the peer half-closes.
    socket.allowHalfOpen = true;
    return socket
      .setNoDelay()
      .on('error', () => {})
      .on('close', () => sockets.delete(socket));
  }

  return {
    async connect(at, signal) {
      checkOpen(signal);
      const target = await resolveName(at.host, files);
      checkOpen(signal);
      const socket = await child.open({ connect: { ...target, port: at.port } }, signal).catch(explain(at));
      if (!(socket instanceof net.Socket)) throw runEnded();
      track(socket);
      if (closed) throw runEnded();
      return socket;
    },

    async listen(target, onConnection, signal): Promise<NetworkListener> {
      checkOpen(signal);
      const host = target.host === 'localhost' ? '127.0.0.1' : target.host;
      if (host !== '' && net.isIP(host) === 0) throw noAddress(target);
      const accept = (socket: net.Socket): void => {
        if (!track(socket).destroyed) onConnection(socket);
      };
      const request: SocketRequest = { listen: { host, port: target.port }, onEarly: accept };
      const server = await child.open(request, signal).catch(explain(target));
      if (!(server instanceof net.Server)) throw runEnded();
      const closeServer = (): void => {
        servers.delete(server);
        server.close();
      };
      servers.add(server);
      server.on('connection', accept).on('error', closeServer);
      if (closed) {
        closeServer();
        throw runEnded();
      }
      const address = server.address();
      return { port: typeof address === 'object' && address !== null ? address.port : target.port, close: closeServer };
    },

    ended,
    close,
  };
}

const explain =
  (at: InstanceAddress) =>
  (error: unknown): never => {
    throw error instanceof OpenError ? openingFault(at, error.code, error) : error;
  };
