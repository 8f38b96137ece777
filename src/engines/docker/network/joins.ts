/**
 * # From within an instance's network
 *
 * A network namespace is entered by a whole process, so a small one of ours does it (`child.mjs`): it opens connections and
 * listeners there and hands them over, and from then on they are sockets of this process like any other. It is begun when something is to be
 * opened, and ends after a while without work.
 *
 * Of the instance it has the network and nothing else: no file, process or user id of it is in its sight, nor it in theirs. The name of the
 * namespace is the engine's, of this one run; by a process id of the instance, which may be another's by now, one could come to the
 * host's own network.
 */
import net from 'node:net';
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault, type FaultKind } from '../../../domain/engine-fault.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import type { InstanceAddress, InstanceNetwork, NetworkListener } from '../../contract.ts';
import type { Ends } from '../container/run-ends.ts';
import { faultOf } from '../client/faults.ts';
import { readName } from '../container/names.ts';
import { makeNetworkChild, Refusal, type Question } from './parent.ts';

export function joinNetwork({
  id,
  info,
  enter,
  ends,
}: {
  id: InstanceId;
  /** As it was just now. */
  info: ContainerInspectInfo;
  /** The program that enters namespaces. */
  enter: string;
  ends: Ends;
}): InstanceNetwork {
  const child = makeNetworkChild({ enter, network: info.NetworkSettings.SandboxKey });
  const files = { hosts: info.HostsPath, resolvConf: info.ResolvConfPath };
  const sockets = new Set<net.Socket>();
  const servers = new Set<net.Server>();
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  let over = false;

  const close = (): void => {
    if (over) return;
    over = true;
    stopTelling();
    child.stop();
    for (const server of servers) server.close();
    for (const socket of sockets) socket.destroy();
    resolve();
  };
  const stopTelling = ends.tell(id, info, close);

  const checkOpen = (signal: AbortSignal): void => {
    if (signal.aborted) throw faultOf(signal.reason);
    if (over) throw overFault();
  };

  /** It ends with the run; and an error of it, which nobody may listen for, is its end. */
  function hold(socket: net.Socket): net.Socket {
    if (over) return socket.destroy();
    sockets.add(socket);
    // As it comes from the other process it would end by itself what the other end has half closed.
    socket.allowHalfOpen = true;
    return socket
      .setNoDelay()
      .on('error', () => {})
      .on('close', () => sockets.delete(socket));
  }

  return {
    async connect(at, signal) {
      checkOpen(signal);
      const meaning = await readName(at.host, files);
      checkOpen(signal);
      const socket = await child.ask({ connect: { ...meaning, port: at.port } }, signal).catch(explain(at));
      if (!(socket instanceof net.Socket)) throw overFault();
      hold(socket);
      if (over) throw overFault();
      return socket;
    },

    async listen(at, onConnection, signal): Promise<NetworkListener> {
      checkOpen(signal);
      const host = at.host === 'localhost' ? '127.0.0.1' : at.host;
      if (host !== '' && net.isIP(host) === 0) throw noAddress(at);
      const take = (socket: net.Socket): void => {
        if (!hold(socket).destroyed) onConnection(socket);
      };
      const question: Question = { listen: { host, port: at.port }, onEarly: take };
      const server = await child.ask(question, signal).catch(explain(at));
      if (!(server instanceof net.Server)) throw overFault();
      const shut = (): void => {
        servers.delete(server);
        server.close();
      };
      servers.add(server);
      server.on('connection', take).on('error', shut);
      if (over) {
        shut();
        throw overFault();
      }
      const address = server.address();
      return { port: typeof address === 'object' && address !== null ? address.port : at.port, close: shut };
    },

    ended,
    close,
  };
}

const overFault = (): EngineFault =>
  new EngineFault('unreachable', 'this run of the instance is over', { retry: false });

const noAddress = ({ host }: InstanceAddress, cause?: unknown): EngineFault =>
  new EngineFault('rejected', `${host} is no address of the instance; give one, or none for all`, {
    retry: false,
    cause,
  });

const explain =
  ({ host, port }: InstanceAddress) =>
  (error: unknown): never => {
    if (!(error instanceof Refusal)) throw error;
    const fault = (kind: FaultKind, text: string, retry: boolean): EngineFault =>
      new EngineFault(kind, text, { retry, cause: error });
    switch (error.code) {
      case 'ECONNREFUSED':
        throw fault('busy', `nothing listens on port ${port} of ${host} (yet)`, true);
      case 'EADDRINUSE':
        throw fault('busy', `port ${port} of the instance is taken`, true);
      case 'EADDRNOTAVAIL':
        throw noAddress({ host, port }, error);
      case 'ENOTFOUND':
        throw fault('not_found', `the instance knows no host called ${host}`, false);
      default:
        throw fault('unreachable', `there is no way from the instance to port ${port} of ${host}`, true);
    }
  };
