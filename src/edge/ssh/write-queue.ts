/**
 * What goes out on one channel: a block at a time, and the next not before the client has taken it. ssh2 alone would keep whatever a client's
 * window allows (4 GB, if it says so) and whatever is written while keys are exchanged; and it mixes stdout and stderr up once both wait.
 */
import type { ServerChannel } from 'ssh2';
import type { Backpressure } from './backpressure.ts';
import { forgetWritten, outgoingOf } from './ssh2-inside.ts';

export interface WriteQueue {
  /** Resolves when there is room for the next; false: the channel, or the client, is gone. */
  write(bytes: Buffer, to: 'stdout' | 'stderr'): Promise<boolean>;
}

export interface WriteQueueDeps {
  channel: ServerChannel;
  /** Of the whole connection. */
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
