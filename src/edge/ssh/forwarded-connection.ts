/**
 * A connection that came from inside, for the client to take. Its place is given back when the client has answered and closed its channel,
 * not when whoever knocked has left: ssh2 keeps the question until then.
 */
import type { Duplex } from 'node:stream';
import type { ServerChannel } from 'ssh2';
import type { Client } from './client.ts';
import { joinStreams } from './join.ts';

export type OpenChannel = (opened: (channel: ServerChannel | null) => void) => void;

export function forwardConnection(client: Client, connection: Duplex, open: OpenChannel): void {
  connection.on('error', () => {});
  const over = client.tryAcquire();
  if (over === null) return void connection.destroy();
  const refused = (): void => {
    connection.destroy();
    over();
  };
  const ask = async (): Promise<void> => {
    // Who reads nothing is asked nothing: those who knock wait, until there are too many.
    for (let busy = client.backpressure(); busy !== null; busy = client.backpressure()) await busy;
    if (client.gone.aborted || connection.destroyed) return refused();
    open((channel) => {
      if (channel === null) return refused();
      channel.once('close', over);
      joinStreams(client, channel, connection);
    });
  };
  ask().catch((error: unknown) => client.end(String(error)));
}
