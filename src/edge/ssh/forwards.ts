/** Port forwarding to the instance (-L, -D) and from ports that it opens inside (-R). */
import type { TcpipBindInfo } from 'ssh2';
import type { Client } from './client.ts';
import type { InstanceNetwork, NetworkConnection } from './instance-driver.ts';
import { joinStreams } from './join.ts';
import { forwardConnection } from './forwarded-connection.ts';
import { makeLimit } from '../../async/limits.ts';

const CONNECT_MS = 30_000;
const LISTEN_MS = 5_000;
const MOST_LISTENING = 64;
/** As sshd without `GatewayPorts`: forwarded ports are reachable from the instance only. */
const INSIDE = '127.0.0.1';

export function serveForwards(client: Client, network: InstanceNetwork): void {
  const listening = new Map<string, { close(): void }>();
  /** Counts pending listens too: one packet of the client may request many. */
  const beginListening = makeLimit(MOST_LISTENING, client.tryAcquire);
  const within = (ms: number): AbortSignal => AbortSignal.any([client.gone, AbortSignal.timeout(ms)]);

  client.ssh.on('tcpip', (accept, reject, { destIP: host, destPort: port }) => {
    const over = client.tryAcquire();
    if (over === null) return reject();
    network.connect({ host, port }, within(CONNECT_MS)).then(
      (connection) => {
        connection.on('error', () => {});
        if (client.gone.aborted) return connection.destroy();
        const channel = accept();
        // The connection's close does not count: ssh2 keeps channels that the client never closes.
        channel.once('close', over);
        joinStreams(client, channel, connection);
      },
      () => {
        over();
        if (!client.gone.aborted) reject();
      },
    );
  });

  const arrived = (asked: TcpipBindInfo, port: number, connection: NetworkConnection): void => {
    const from = connection.remoteAddress ?? INSIDE;
    forwardConnection(client, connection, (opened) => {
      client.ssh.forwardOut(asked.bindAddr, port, from, 0, (error, channel) => opened(error ? null : channel));
    });
  };

  async function listen(asked: TcpipBindInfo): Promise<number> {
    const over = beginListening();
    if (over === null) throw new Error('it listens on too many ports already');
    try {
      let chosen = asked.bindPort;
      const onConnection = (connection: NetworkConnection): void => arrived(asked, chosen, connection);
      const opened = await network.listen({ host: INSIDE, port: asked.bindPort }, onConnection, within(LISTEN_MS));
      chosen = opened.port;
      const close = (): void => {
        opened.close();
        over();
      };
      if (client.gone.aborted) close();
      else listening.set(keyOf({ ...asked, bindPort: chosen }), { close });
      return chosen;
    } catch (error) {
      over();
      throw error;
    }
  }

  const cancel = (asked: TcpipBindInfo): boolean => {
    const key = keyOf(asked);
    listening.get(key)?.close();
    return listening.delete(key);
  };

  client.ssh.on('request', (accept, reject, name, asked) => {
    if (name === 'cancel-tcpip-forward' && 'bindPort' in asked) return cancel(asked) ? accept?.() : reject?.();
    if (name !== 'tcpip-forward' || !('bindPort' in asked)) return reject?.();
    // ssh2 replies in order and buffers later requests.
    client.ssh._sock.pause();
    listen(asked)
      .then(
        (port) => !client.gone.aborted && accept?.(port),
        () => !client.gone.aborted && reject?.(),
      )
      .catch((error: unknown) => client.end(String(error)))
      .finally(() => client.ssh._sock.resume());
  });

  client.gone.addEventListener(
    'abort',
    () => {
      for (const one of listening.values()) one.close();
      listening.clear();
    },
    { once: true },
  );
}

const keyOf = ({ bindAddr, bindPort }: TcpipBindInfo): string => `${bindAddr} ${bindPort}`;
