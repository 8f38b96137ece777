/** Agent forwarding: a Unix socket in the instance per connection. */
import type { Duplex } from 'node:stream';
import type { SshBackend } from '../../control/index.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Client } from './client.ts';
import { forwardConnection } from './join.ts';
import { openAgentChannel } from './ssh2-inside.ts';

const LISTEN_MS = 10_000;

export interface Agent {
  /** Path in the instance, shared by all sessions of the connection; null if listening failed. */
  path(): Promise<string | null>;
}

export function makeAgent(client: Client, backend: Pick<SshBackend, 'listenUnix'>, id: InstanceId): Agent {
  let listening: Promise<string | null> | null = null;

  const onConnection = (connection: Duplex): void =>
    forwardConnection(client, connection, (opened) => openAgentChannel(client.ssh, opened));

  async function listen(): Promise<string> {
    if (client.tryAcquire() === null) throw new Error('it has too many channels');
    const signal = AbortSignal.any([client.gone, AbortSignal.timeout(LISTEN_MS)]);
    const { pathInside, close } = await backend.listenUnix(id, onConnection, signal);
    if (client.gone.aborted) close();
    else client.gone.addEventListener('abort', close, { once: true });
    return pathInside;
  }

  return {
    path: () => (listening ??= listen().catch(() => null)),
  };
}
