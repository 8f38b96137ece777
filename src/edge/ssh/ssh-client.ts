/** Resources of one ssh connection. Whatever breaks the connection, `end` runs once. */
import { setMaxListeners } from 'node:events';
import type { Connection, ServerChannel } from 'ssh2';
import type { Log } from '../../control/index.ts';
import { isExchangingKeys, outgoingOf } from './ssh2-inside.ts';
import { makeBackpressure, type Backpressure, makeWriteQueue, type WriteQueue } from './write-queue.ts';
import type { InstanceBytes } from './buffered-bytes.ts';
import { makeLimit, type TryAcquire } from '../../async/limits.ts';

const MAX_CHANNELS = 512;
/** RFC 4253 §6.1 requires 32,768; a tiny size multiplies the number of packets. */
const MIN_PACKET_BYTES = 1_024;
/** Bound on replies that a client requests and never reads. */
const MAX_UNREAD_BYTES = 32 * 1024 ** 2;
const CHECK_MS = 5_000;
const KEY_EXCHANGE_MS = 60_000;

export interface SshClient {
  ssh: Connection;
  gone: AbortSignal;
  adopt(channel: ServerChannel): WriteQueue;
  backpressure: Backpressure;
  /** Permit for a channel or a port, released with the client at the latest. */
  tryAcquire: TryAcquire;
  end(why: string): void;
}

export interface SshClientDeps {
  ssh: Connection;
  log: Log;
  instanceId: string;
  buffered: InstanceBytes;
  acquireChannel: TryAcquire;
  takeExchange: () => boolean;
}

export function makeSshClient(deps: SshClientDeps): SshClient {
  const { ssh, log, instanceId, buffered, acquireChannel, takeExchange } = deps;
  const ending = new AbortController();
  setMaxListeners(0, ending.signal);
  const { _sock: socket } = ssh;
  let exchangingSinceMs: number | null = null;

  const end = (why: string): void => {
    if (ending.signal.aborted) return;
    clearInterval(timer);
    ending.abort();
    for (const forget of forgets) forget();
    for (const release of releases) release();
    socket.destroy();
    log.debug({ instanceId, why }, 'an ssh connection ended');
  };
  const forgets = new Set([buffered.watch(() => socket.writableLength)]);
  const releases = new Set<() => void>();
  const acquire = makeLimit(MAX_CHANNELS, acquireChannel);
  const backpressure = makeBackpressure(ssh, ending.signal);

  ssh.on('error', (error) => end(error.message));
  ssh.on('end', () => end('the client disconnected'));
  ssh.on('close', () => end('the connection was closed'));
  ssh.on('rekey', () => {
    if (!takeExchange()) end('the clients of the account exchange keys too often');
  });

  const checkUnread = (): void => {
    if (socket.writableLength > MAX_UNREAD_BYTES) end('the client does not read the output');
  };
  socket.on('data', ({ length }: Buffer) => {
    checkUnread();
    if (!buffered.accept(length)) end('nothing reads the data of the client');
  });
  const timer = setInterval(() => {
    // Covers clients that send nothing.
    checkUnread();
    exchangingSinceMs = isExchangingKeys(ssh) ? (exchangingSinceMs ?? performance.now()) : null;
    if (exchangingSinceMs !== null && performance.now() - exchangingSinceMs > KEY_EXCHANGE_MS)
      end('the client did not finish an exchange of keys');
  }, CHECK_MS);
  timer.unref();

  return {
    ssh,
    gone: ending.signal,
    end,
    backpressure,
    tryAcquire() {
      const release = ending.signal.aborted ? null : acquire();
      if (release === null) return null;
      const forget = (): void => {
        releases.delete(forget);
        release();
      };
      releases.add(forget);
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
      if (outgoingOf(channel).packetSize < MIN_PACKET_BYTES) end('the packets of the client are too small');
      return makeWriteQueue({ channel, backpressure, gone: ending.signal });
    },
  };
}
