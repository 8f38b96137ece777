/** Joins a channel and a connection of the instance. Each direction ends alone. */
import type { Duplex } from 'node:stream';
import type { ServerChannel } from 'ssh2';
import type { SshClient } from './ssh-client.ts';

export function joinStreams(client: SshClient, channel: ServerChannel, stream: Duplex): void {
  const writes = client.adopt(channel);
  let isLeft = false;
  const leave = (): void => {
    if (isLeft) return;
    isLeft = true;
    client.gone.removeEventListener('abort', leave);
    stream.destroy();
    channel.end();
    channel.resume();
  };
  client.gone.addEventListener('abort', leave, { once: true });
  stream.on('error', leave);
  stream.on('close', leave);
  channel.once('close', leave);
  feed(channel, stream);
  const takeAll = async (): Promise<void> => {
    for await (const bytes of stream.iterator({ destroyOnReturn: false }))
      if (!(await writes.write(bytes, 'stdout'))) return;
    channel.eof();
  };
  takeAll().catch(leave);
  if (client.gone.aborted || stream.destroyed) leave();
}

/** Drops data once the target is closed. */
export function feed(channel: ServerChannel, into: NodeJS.WritableStream & { destroyed?: boolean }): void {
  let isClosed = false;
  const discardInput = (): void => {
    isClosed = true;
    channel.resume();
  };
  into.on('close', discardInput);
  into.on('error', discardInput);
  into.on('drain', () => channel.resume());
  channel.on('data', (bytes: Buffer) => {
    if (!isClosed && into.writable && !into.write(bytes)) channel.pause();
  });
  channel.once('end', () => into.end());
}

type OpenChannel = (opened: (channel: ServerChannel | null) => void) => void;

export function forwardConnection(client: SshClient, connection: Duplex, open: OpenChannel): void {
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
