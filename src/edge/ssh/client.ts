/**
 * # One client
 *
 * Everything that belongs to one connection, once it has said that it speaks ssh. It ends in one place, whatever breaks it (a reset, a
 * malformed packet, a deleted key, the end of the instance): `gone` tells all who wait, and then the connection is destroyed.
 */
import { setMaxListeners } from 'node:events';
import type { Connection, ServerChannel } from 'ssh2';
import type { Log } from '../../control/log.ts';
import { isExchangingKeys, outgoingOf } from './ssh2-inside.ts';
import { makeBusy } from './busy.ts';
import { makeOutlet, type Outlet } from './outlet.ts';

const MOST_CHANNELS = 512;
/** RFC 4253 §6.1 has every client take 32,768; less would make a packet of each few bytes. */
const LEAST_PACKET_BYTES = 1_024;
/** Answers that a client asks for and does not read; what channels write waits for it long before. */
const MOST_UNREAD_BYTES = 32 * 1024 ** 2;
const LOOK_MS = 5_000;
const KEYS_EXCHANGED_MS = 60_000;

export interface Client {
  ssh: Connection;
  /** Aborts when it ends. */
  gone: AbortSignal;
  /** To be called with each channel as it is made. */
  adopt(channel: ServerChannel): Outlet;
  /** Whether one more channel is let be, from now until what is answered is called; null: it has too many. */
  begin(): (() => void) | null;
  end(why: string): void;
}

export interface ClientNeeds {
  ssh: Connection;
  log: Log;
  instanceId: string;
  held: Held;
}

/** What clients of one instance have sent and nobody has taken, together. */
export interface Held {
  /** False: it is too much. */
  mayTake(bytes: number): boolean;
  watch(channel: ServerChannel): () => void;
}

const MOST_HELD_BYTES = 128 * 1024 ** 2;
const COUNT_EVERY_BYTES = 4 * 1024 ** 2;

export function makeHeld(): Held {
  const channels = new Set<ServerChannel>();
  let uncounted = 0;
  return {
    mayTake(bytes) {
      uncounted += bytes;
      if (uncounted < COUNT_EVERY_BYTES) return true;
      uncounted = 0;
      let all = 0;
      for (const { readableLength } of channels) all += readableLength;
      return all < MOST_HELD_BYTES;
    },
    watch(channel) {
      channels.add(channel);
      return () => void channels.delete(channel);
    },
  };
}

export function makeClient({ ssh, log, instanceId, held }: ClientNeeds): Client {
  const ending = new AbortController();
  // Each of its channels listens.
  setMaxListeners(0, ending.signal);
  const { _sock: socket } = ssh;
  let count = 0;
  let exchangingSinceMs: number | null = null;

  const end = (why: string): void => {
    if (ending.signal.aborted) return;
    clearInterval(timer);
    ending.abort();
    for (const forget of forgets) forget();
    socket.destroy();
    log.debug({ instanceId, why }, 'an ssh connection ended');
  };
  const forgets = new Set<() => void>();
  const whileBusy = makeBusy(ssh, ending.signal);

  ssh.on('error', (error) => end(error.message));
  ssh.on('end', () => end('the client left'));
  ssh.on('close', () => end('the connection was closed'));

  socket.on('data', () => {
    if (socket.writableLength > MOST_UNREAD_BYTES) end('it reads none of the answers that it asks for');
  });
  const timer = setInterval(() => {
    exchangingSinceMs = isExchangingKeys(ssh) ? (exchangingSinceMs ?? Date.now()) : null;
    if (exchangingSinceMs !== null && Date.now() - exchangingSinceMs > KEYS_EXCHANGED_MS)
      end('it began an exchange of keys and never finished it');
  }, LOOK_MS);
  timer.unref();

  return {
    ssh,
    gone: ending.signal,
    end,
    begin() {
      if (count >= MOST_CHANNELS || ending.signal.aborted) return null;
      count += 1;
      let isOver = false;
      return () => {
        if (!isOver) count -= 1;
        isOver = true;
      };
    },
    adopt(channel) {
      const forget = held.watch(channel);
      forgets.add(forget);
      channel.on('error', () => {}); // of a connection that broke: `gone` tells
      channel.stderr.on('error', () => {});
      channel.once('close', () => {
        forgets.delete(forget);
        forget();
      });
      const push = channel.push.bind(channel);
      // ssh2 takes what goes beyond the window that it gave.
      channel.push = (bytes: Buffer | null) => {
        if (bytes === null || held.mayTake(bytes.length)) return push(bytes);
        end('what it sends is taken by nobody');
        return false;
      };
      if (outgoingOf(channel).packetSize < LEAST_PACKET_BYTES) end('its packets are too small');
      return makeOutlet({ channel, whileBusy, gone: ending.signal });
    },
  };
}
