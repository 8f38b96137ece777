/**
 * Write queue of a channel: one block at a time. ssh2 alone buffers up to the client's window (4 GB
 * if the client says so) and all writes during a key exchange, and mixes up stdout and stderr.
 */
import type { ServerChannel, Connection } from 'ssh2';
import { forgetWritten, outgoingOf, isExchangingKeys } from './ssh2-inside.ts';

export interface WriteQueue {
  /** Resolves when the next block may follow; false when channel or client is gone. */
  write(bytes: Buffer, to: 'stdout' | 'stderr'): Promise<boolean>;
}

interface WriteQueueDeps {
  channel: ServerChannel;
  backpressure: Backpressure;
  gone: AbortSignal;
}

export function makeWriteQueue({ channel, backpressure, gone }: WriteQueueDeps): WriteQueue {
  let isGone = false;
  let written = (): void => {};
  let lastWrite: Promise<unknown> = Promise.resolve();
  const end = (): void => {
    isGone = true;
    gone.removeEventListener('abort', end);
    written();
  };
  channel.once('close', end);
  gone.addEventListener('abort', end, { once: true });
  if (gone.aborted) end();

  async function put(bytes: Buffer, to: 'stdout' | 'stderr'): Promise<boolean> {
    for (let full = backpressure(); full !== null && !isGone; full = backpressure()) await full;
    if (isGone || outgoingOf(channel).state !== 'open') return false;
    const stream = to === 'stderr' ? channel.stderr : channel;
    await new Promise<void>((resolve) => {
      written = resolve;
      stream.write(bytes, () => {
        forgetWritten(channel);
        resolve();
      });
    });
    return !isGone;
  }

  return {
    write(bytes, to) {
      const mine = lastWrite.then(() => put(bytes, to));
      lastWrite = mine.catch(() => {});
      return mine;
    },
  };
}

/** Null when the connection accepts data; else resolves when to check again. */
export type Backpressure = () => Promise<void> | null;

export function makeBackpressure(ssh: Connection, gone: AbortSignal): Backpressure {
  const { _sock: socket } = ssh;
  let waiting: Promise<void> | null = null;
  const wait = (): Promise<void> =>
    new Promise((resolve) => {
      const again = (): void => {
        socket.off('drain', again);
        ssh.off('handshake', again);
        gone.removeEventListener('abort', again);
        waiting = null;
        resolve();
      };
      socket.on('drain', again);
      ssh.on('handshake', again);
      gone.addEventListener('abort', again);
    });
  return () => {
    if (gone.aborted || !(socket.writableNeedDrain || isExchangingKeys(ssh))) return null;
    return (waiting ??= wait());
  };
}
