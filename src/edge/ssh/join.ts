/** A channel and a connection of the instance, joined: each way ends by itself, and no faster than its reader. */
import type { Duplex } from 'node:stream';
import type { ServerChannel } from 'ssh2';
import type { Client } from './client.ts';

export function joinStreams(client: Client, channel: ServerChannel, stream: Duplex): void {
  const outlet = client.adopt(channel);
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
  // Once both have said all.
  stream.on('close', leave);
  channel.once('close', leave);
  feed(channel, stream);
  const takeAll = async (): Promise<void> => {
    // Its end is the end of one way alone.
    for await (const bytes of stream.iterator({ destroyOnReturn: false }))
      if (!(await outlet.write(bytes, 'stdout'))) return;
    channel.eof();
  };
  takeAll().catch(leave);
  if (client.gone.aborted || stream.destroyed) leave();
}

/** What the client sends, to its end; what nobody takes any more is dropped. */
export function feed(channel: ServerChannel, into: NodeJS.WritableStream & { destroyed?: boolean }): void {
  let isOver = false;
  const over = (): void => {
    isOver = true;
    channel.resume();
  };
  into.on('close', over);
  into.on('error', over);
  into.on('drain', () => channel.resume());
  channel.on('data', (bytes: Buffer) => {
    if (!isOver && into.writable && !into.write(bytes)) channel.pause();
  });
  channel.once('end', () => into.end());
}
