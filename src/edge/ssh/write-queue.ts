/**
 * Write queue of a channel: one block at a time. ssh2 alone buffers up to the client's window (4 GB
 * if the client says so) and all writes during a key exchange, and mixes up stdout and stderr.
 */
import type { ServerChannel } from 'ssh2';
import type { Backpressure } from './backpressure.ts';
import { forgetWritten, outgoingOf } from './ssh2-inside.ts';

export interface WriteQueue {
  /** Resolves when the next block may follow; false when channel or client is gone. */
  write(bytes: Buffer, to: 'stdout' | 'stderr'): Promise<boolean>;
}

export interface WriteQueueDeps {
  channel: ServerChannel;
  backpressure: Backpressure;
  gone: AbortSignal;
}

export function makeWriteQueue({ channel, backpressure, gone }: WriteQueueDeps): WriteQueue {
  let isGone = false;
  let written = (): void => {};
  let turn: Promise<unknown> = Promise.resolve();
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
      const mine = turn.then(() => put(bytes, to));
      turn = mine.catch(() => {});
      return mine;
    },
  };
}
