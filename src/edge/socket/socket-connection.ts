/**
 * A WebSocket with back-pressure both ways: a message is sent after the last reached the kernel,
 * and none is read while one is handled. Pings find a dead peer; a peer that reads nothing is cut
 * off after ten minutes.
 */
import { WebSocket, type RawData } from 'ws';
import type { z } from 'zod';

const BEAT_MS = 30_000;
/** Heartbeats without any sign of the peer. */
const DEAD_BEATS = 2;
/** Heartbeats while data waits to be sent, when no pong can be expected. */
const STUCK_BEATS = 20;
/** Deadline for the peer's close frame. */
const CLOSE_MS = 5_000;
const MOST_REASON_BYTES = 123;

/** A message outside of the protocol. Its text becomes the close reason. */
export class BadMessage extends Error {}

/** Bytes of a message that is JSON: a size or a signal. */
const MAX_JSON_BYTES = 4 * 1024;

/** Parses the JSON of a message; `form` is the text of the `BadMessage` for any other. */
export function parseMessage<Schema extends z.ZodType>(schema: Schema, bytes: Buffer, form: string): z.output<Schema> {
  if (bytes.length > MAX_JSON_BYTES) throw new BadMessage(form);
  try {
    return schema.parse(JSON.parse(bytes.toString('utf8')));
  } catch {
    throw new BadMessage(form);
  }
}

export interface SocketConnection {
  /** Rejects once closed. Bytes are sent as binary after `head`, a string as text. */
  send(data: Uint8Array | string, head?: Uint8Array): Promise<void>;
  close(code: number, why: string): void;
  closed: Promise<{ code: number; why: string }>;
  /** Resolves when the socket is closed and all received messages are handled. */
  settled: Promise<{ code: number; why: string }>;
}

export interface SocketConnectionDeps {
  socket: WebSocket;
  /** Called for one message at a time. An error closes the socket. */
  onMessage: (data: Buffer, isText: boolean) => Promise<void> | void;
  badMessage: number;
  heartbeatMs?: number | undefined;
  /** Called at each heartbeat. A returned reason closes the socket. */
  endReason?: () => Promise<{ code: number; why: string } | null>;
}

export function makeSocketConnection({
  socket,
  onMessage,
  badMessage,
  endReason,
  heartbeatMs = BEAT_MS,
}: SocketConnectionDeps): SocketConnection {
  const { promise: closed, resolve } = Promise.withResolvers<{ code: number; why: string }>();
  let silentBeats = 0;
  let sending = 0;
  let waiting = 0;
  let last = Promise.resolve();
  let isChecking = false;
  let weClosed = false;
  let closeTimer: NodeJS.Timeout | undefined;

  const resetSilence = (): void => {
    silentBeats = 0;
  };
  const close = (code: number, why: string): void => {
    if (socket.readyState === WebSocket.CLOSED) return;
    weClosed = true;
    socket.close(code, truncateReason(why));
    // Unread messages would hide the peer's close frame.
    socket.resume();
    closeTimer ??= setTimeout(() => socket.terminate(), CLOSE_MS);
  };
  const fail = (error: unknown): void => {
    if (error instanceof BadMessage) close(badMessage, error.message);
    else close(1011, 'the server failed');
  };
  const pauseUntil = (handling: Promise<void>): void => {
    waiting += 1;
    socket.pause();
    last = handling.catch(fail).finally(() => {
      waiting -= 1;
      if (waiting === 0) socket.resume();
    });
  };
  // Messages before the peer's close count; those after our close do not.
  const handle = (data: Buffer, isText: boolean): Promise<void> | void => {
    if (!weClosed) return onMessage(data, isText);
  };

  socket.on('message', (raw: RawData, isBinary) => {
    resetSilence();
    const data = bytesOf(raw);
    if (waiting > 0) return pauseUntil(last.then(() => handle(data, !isBinary)));
    try {
      const handling = handle(data, !isBinary);
      if (handling) pauseUntil(handling);
    } catch (error) {
      fail(error);
    }
  });
  socket.on('pong', resetSilence);
  socket.on('ping', resetSilence);
  socket.on('error', () => socket.terminate()); // a close follows
  const timer = setInterval(() => {
    silentBeats = waiting > 0 ? 0 : silentBeats + 1;
    if (silentBeats > (sending > 0 ? STUCK_BEATS : DEAD_BEATS)) return socket.terminate();
    if (socket.readyState === WebSocket.OPEN) socket.ping();
    if (!endReason || isChecking) return;
    isChecking = true;
    endReason()
      .then((why) => {
        if (why !== null) close(why.code, why.why);
      })
      .catch(() => {}) // a failed check ends nothing
      .finally(() => (isChecking = false));
  }, heartbeatMs);
  timer.unref();
  socket.once('close', (code, reason) => {
    clearInterval(timer);
    clearTimeout(closeTimer);
    resolve({ code, why: reason.toString() });
  });

  return {
    closed,
    settled: closed.then((how) => last.then(() => how)),
    close,
    send(data, head) {
      sending += 1;
      return new Promise<void>((sent, refused) => {
        const binary = typeof data !== 'string';
        // Two frames avoid a copy of the whole message.
        if (head) socket.send(head, { binary, fin: false });
        socket.send(data, { binary }, (error) => {
          sending -= 1;
          resetSilence();
          if (error) refused(error);
          else sent();
        });
      });
    },
  };
}

const bytesOf = (raw: RawData): Buffer =>
  Buffer.isBuffer(raw) ? raw : Array.isArray(raw) ? Buffer.concat(raw) : Buffer.from(raw);

/** Cuts between characters. */
function truncateReason(why: string): string {
  let text = why;
  while (Buffer.byteLength(text) > MOST_REASON_BYTES) text = text.slice(0, -1);
  return text.toWellFormed();
}
