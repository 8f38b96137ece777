/**
 * Resources of one ssh connection. Whatever breaks the connection (a reset, a malformed packet, a
 * deleted key, a stopped instance), `end` runs once: it aborts `gone`, then destroys the socket.
 */
import { setMaxListeners } from 'node:events';
import type { Connection, ServerChannel } from 'ssh2';
import type { Log } from '../../control/index.ts';
import { isExchangingKeys, outgoingOf } from './ssh2-inside.ts';
import { makeBackpressure, type Backpressure } from './backpressure.ts';
import type { InstanceBytes } from './buffered-bytes.ts';
import { makeWriteQueue, type WriteQueue } from './write-queue.ts';
import { makeLimit, type TryAcquire } from '../../async/limits.ts';

const MOST_CHANNELS = 512;
/** RFC 4253 §6.1 requires 32,768; a tiny packet size multiplies the number of packets. */
const LEAST_PACKET_BYTES = 1_024;
/** Bound on replies that a client requests and never reads. */
const MOST_UNREAD_BYTES = 32 * 1024 ** 2;
const LOOK_MS = 5_000;
const KEYS_EXCHANGED_MS = 60_000;

export interface Client {
  ssh: Connection;
  gone: AbortSignal;
  /** Call for each new channel. */
  adopt(channel: ServerChannel): WriteQueue;
  backpressure: Backpressure;
  /** Permit for a channel or a port, released with the client at the latest. */
  tryAcquire: TryAcquire;
  end(why: string): void;
}

export interface ClientDeps {
  ssh: Connection;
  log: Log;
  instanceId: string;
  buffered: InstanceBytes;
  acquireChannel: TryAcquire;
}

export function makeClient({ ssh, log, instanceId, buffered, acquireChannel }: ClientDeps): Client {
  const ending = new AbortController();
  setMaxListeners(0, ending.signal);
  const { _sock: socket } = ssh;
  let exchangingSinceMs: number | null = null;

  const end = (why: string): void => {
    if (ending.signal.aborted) return;
    clearInterval(timer);
    ending.abort();
    for (const forget of forgets) forget();
    for (const over of begun) over();
    socket.destroy();
    log.debug({ instanceId, why }, 'an ssh connection ended');
  };
  const forgets = new Set([buffered.watch(() => socket.writableLength)]);
  const begun = new Set<() => void>();
  const take = makeLimit(MOST_CHANNELS, acquireChannel);
  const backpressure = makeBackpressure(ssh, ending.signal);

  ssh.on('error', (error) => end(error.message));
  ssh.on('end', () => end('the client left'));
  ssh.on('close', () => end('the connection was closed'));

  const look = (): void => {
    if (socket.writableLength > MOST_UNREAD_BYTES) end('it reads none of what it is sent');
  };
  socket.on('data', ({ length }: Buffer) => {
    look();
    if (!buffered.accept(length)) end('what it sends is taken by nobody');
  });
  const timer = setInterval(() => {
    // Covers clients that send nothing.
    look();
    exchangingSinceMs = isExchangingKeys(ssh) ? (exchangingSinceMs ?? Date.now()) : null;
    if (exchangingSinceMs !== null && Date.now() - exchangingSinceMs > KEYS_EXCHANGED_MS)
      end('it began an exchange of keys and never finished it');
  }, LOOK_MS);
  timer.unref();

  return {
    ssh,
    gone: ending.signal,
    end,
    backpressure,
    tryAcquire() {
      const over = ending.signal.aborted ? null : take();
      if (over === null) return null;
      const forget = (): void => {
        begun.delete(forget);
        over();
      };
      begun.add(forget);
      return forget;
    },
    adopt(channel) {
      const forget = buffered.watch(() => channel.readableLength);
      forgets.add(forget);
      channel.on('error', () => {}); // `gone` reports a broken connection
      channel.stderr.on('error', () => {});
      channel.once('close', () => {
        forgets.delete(forget);
        forget();
      });
      if (outgoingOf(channel).packetSize < LEAST_PACKET_BYTES) end('its packets are too small');
      return makeWriteQueue({ channel, backpressure, gone: ending.signal });
    },
  };
}
