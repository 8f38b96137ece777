/**
 * Forwards a connection from the instance to the client. The permit is released with the channel,
 * not the connection: ssh2 keeps the request until then.
 */
import type { Duplex } from 'node:stream';
import type { ServerChannel } from 'ssh2';
import type { Client } from './client.ts';
import { joinStreams } from './join.ts';

export type OpenChannel = (opened: (channel: ServerChannel | null) => void) => void;

export function forwardConnection(client: Client, connection: Duplex, open: OpenChannel): void {
  connection.on('error', () => {});
  const release = client.tryAcquire();
  if (release === null) return void connection.destroy();
  const refused = (): void => {
    connection.destroy();
    release();
  };
  const requestChannel = async (): Promise<void> => {
    // A client that reads nothing gets no requests; connections wait, up to the limit.
    for (let busy = client.backpressure(); busy !== null; busy = client.backpressure()) await busy;
    if (client.gone.aborted || connection.destroyed) return refused();
    open((channel) => {
      if (channel === null) return refused();
      channel.once('close', release);
      joinStreams(client, channel, connection);
    });
  };
  requestChannel().catch((error: unknown) => client.end(String(error)));
}
