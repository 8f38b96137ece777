/** Forwarding of ports, both ways, and of the client's agent. */
import type { Duplex } from 'node:stream';
import type { TcpipBindInfo } from 'ssh2';
import { onAbort, withDeadline } from '../../async/abort.ts';
import { makeLimit } from '../../async/limits.ts';
import type { InstanceNetwork, SshBackend } from '../../control/index.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { SshClient } from './ssh-client.ts';
import { joinStreams, forwardConnection } from './join.ts';
import { openAgentChannel } from './ssh2-inside.ts';

export type NetworkConnection = Parameters<Parameters<InstanceNetwork['listen']>[1]>[0];

const CONNECT_MS = 30_000;
const LISTEN_MS = 5_000;
const LISTEN_FOR_AGENT_MS = 10_000;
const MAX_LISTENING = 64;
/** Loopback address, like sshd without `GatewayPorts`: reachable from the instance only. */
const INSIDE = '127.0.0.1';

export function serveForwards(client: SshClient, network: InstanceNetwork): void {
  const listening = new Map<string, { close(): void }>();
  /** Counts pending listens too: one packet of the client may request many. */
  const beginListening = makeLimit(MAX_LISTENING, client.tryAcquire);

  client.ssh.on('tcpip', (accept, reject, { destIP: host, destPort: port }) => {
    const release = client.tryAcquire();
    if (release === null) return reject();
    network.connect({ host, port }, withDeadline(client.gone, CONNECT_MS)).then(
      (connection) => {
        connection.on('error', () => {});
        if (client.gone.aborted) return connection.destroy();
        const channel = accept();
        // Not the connection's close: ssh2 keeps channels that the client never closes.
        channel.once('close', release);
        joinStreams(client, channel, connection);
      },
      () => {
        release();
        if (!client.gone.aborted) reject();
      },
    );
  });

  const forward = (request: TcpipBindInfo, port: number, connection: NetworkConnection): void => {
    const from = connection.remoteAddress ?? INSIDE;
    forwardConnection(client, connection, (opened) => {
      client.ssh.forwardOut(request.bindAddr, port, from, 0, (error, channel) => opened(error ? null : channel));
    });
  };

  async function listen(request: TcpipBindInfo): Promise<number> {
    const release = beginListening();
    if (release === null) throw new Error('the connection already listens on too many ports');
    try {
      let port = request.bindPort;
      const onConnection = (connection: NetworkConnection): void => forward(request, port, connection);
      const opened = await network.listen(
        { host: INSIDE, port: request.bindPort },
        onConnection,
        withDeadline(client.gone, LISTEN_MS),
      );
      port = opened.port;
      const close = (): void => {
        opened.close();
        release();
      };
      if (client.gone.aborted) close();
      else listening.set(keyOf({ ...request, bindPort: port }), { close });
      return port;
    } catch (error) {
      release();
      throw error;
    }
  }

  const cancel = (request: TcpipBindInfo): boolean => {
    const key = keyOf(request);
    listening.get(key)?.close();
    return listening.delete(key);
  };

  client.ssh.on('request', (accept, reject, name, request) => {
    if (name === 'cancel-tcpip-forward' && 'bindPort' in request) return cancel(request) ? accept?.() : reject?.();
    if (name !== 'tcpip-forward' || !('bindPort' in request)) return reject?.();
    // ssh2 replies in order and buffers later requests.
    client.ssh._sock.pause();
    listen(request)
      .then(
        (port) => !client.gone.aborted && accept?.(port),
        () => !client.gone.aborted && reject?.(),
      )
      .catch((error: unknown) => client.end(String(error)))
      .finally(() => client.ssh._sock.resume());
  });

  onAbort(client.gone, () => {
    for (const one of listening.values()) one.close();
    listening.clear();
  });
}

const keyOf = ({ bindAddr, bindPort }: TcpipBindInfo): string => `${bindAddr} ${bindPort}`;

/**
 * Forwards the agent over a Unix socket in the instance, shared by all sessions of the client.
 * Returns a function to its path there; null if listening failed.
 */
export function makeAgent(
  client: SshClient,
  backend: Pick<SshBackend, 'listenUnix'>,
  id: InstanceId,
): () => Promise<string | null> {
  let listening: Promise<string | null> | null = null;

  const onConnection = (connection: Duplex): void =>
    forwardConnection(client, connection, (opened) => openAgentChannel(client.ssh, opened));

  async function listen(): Promise<string> {
    if (client.tryAcquire() === null) throw new Error('the connection has too many channels');
    const signal = withDeadline(client.gone, LISTEN_FOR_AGENT_MS);
    const { pathInside, close } = await backend.listenUnix(id, onConnection, signal);
    onAbort(client.gone, close);
    return pathInside;
  }

  return () => (listening ??= listen().catch(() => null));
}
