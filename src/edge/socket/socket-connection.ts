/**
 * A WebSocket on which neither side outruns the other: what is sent has gone to the kernel before the next is, and nothing more is read
 * while a message waits to be taken. A dead end is found by pings; who is there and takes nothing is cut off after ten minutes.
 */
import { WebSocket, type RawData } from 'ws';

const BEAT_MS = 30_000;
/** Beats without a sign of the other side. */
const DEAD_BEATS = 2;
/** The same while something waits to be sent, since no answer to a ping can be waited for then. */
const STUCK_BEATS = 20;
/** For the other side to answer a close. */
const CLOSE_MS = 5_000;
const MOST_REASON_BYTES = 123;

/** What the other side sent is no message of the protocol: its words close the line. */
export class BadMessage extends Error {}

export interface Line {
  /** Resolves when it has gone; rejects when it can't go any more. Bytes go as a binary message, behind those of `head`, a string as text. */
  send(data: Uint8Array | string, head?: Uint8Array): Promise<void>;
  close(code: number, why: string): void;
  /** Once nothing of it is left. */
  closed: Promise<{ code: number; why: string }>;
  /** Once that is so, and all that had come before is taken. */
  settled: Promise<{ code: number; why: string }>;
}

export interface LineDeps {
  socket: WebSocket;
  /** One after the other. What it throws closes the line. */
  take: (data: Buffer, isText: boolean) => Promise<void> | void;
  /** The code for a `BadMessage`. */
  badMessage: number;
  beatMs?: number | undefined;
  /** Asked at each beat; what it answers closes the line. */
  whyEnded?: () => Promise<{ code: number; why: string } | null>;
}

export function makeLine({ socket, take, badMessage, whyEnded, beatMs = BEAT_MS }: LineDeps): Line {
  const { promise: closed, resolve } = Promise.withResolvers<{ code: number; why: string }>();
  let silentBeats = 0;
  let sending = 0;
  let waiting = 0;
  let last = Promise.resolve();
  let asking = false;
  let weClosed = false;
  let late: NodeJS.Timeout | undefined;

  const heard = (): void => {
    silentBeats = 0;
  };
  const close = (code: number, why: string): void => {
    if (socket.readyState === WebSocket.CLOSED) return;
    weClosed = true;
    socket.close(code, atMost(why));
    // What waits to be read would keep its answer from being seen.
    socket.resume();
    late ??= setTimeout(() => socket.terminate(), CLOSE_MS);
  };
  const fail = (error: unknown): void => {
    if (error instanceof BadMessage) close(badMessage, error.message);
    else close(1011, 'the server failed');
  };
  const hold = (room: Promise<void>): void => {
    waiting += 1;
    socket.pause();
    last = room.catch(fail).finally(() => {
      waiting -= 1;
      if (waiting === 0) socket.resume();
    });
  };
  // What the other side said before its close counts; what comes after ours does not.
  const taken = (data: Buffer, isText: boolean): Promise<void> | void => {
    if (!weClosed) return take(data, isText);
  };

  socket.on('message', (raw: RawData, isBinary) => {
    heard();
    const data = bytesOf(raw);
    if (waiting > 0) return hold(last.then(() => taken(data, !isBinary)));
    try {
      const room = taken(data, !isBinary);
      if (room) hold(room);
    } catch (error) {
      fail(error);
    }
  });
  socket.on('pong', heard);
  socket.on('ping', heard);
  socket.on('error', () => socket.terminate()); // the close that follows says it
  const timer = setInterval(() => {
    silentBeats = waiting > 0 ? 0 : silentBeats + 1;
    if (silentBeats > (sending > 0 ? STUCK_BEATS : DEAD_BEATS)) return socket.terminate();
    if (socket.readyState === WebSocket.OPEN) socket.ping();
    if (!whyEnded || asking) return;
    asking = true;
    whyEnded()
      .then((why) => {
        if (why !== null) close(why.code, why.why);
      })
      .catch(() => {}) // what can't be asked has ended nothing
      .finally(() => (asking = false));
  }, beatMs);
  timer.unref();
  socket.once('close', (code, reason) => {
    clearInterval(timer);
    clearTimeout(late);
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
        // In two frames: one would be a copy of all of it.
        if (head) socket.send(head, { binary, fin: false });
        socket.send(data, { binary }, (error) => {
          sending -= 1;
          heard();
          if (error) refused(error);
          else sent();
        });
      });
    },
  };
}

const bytesOf = (raw: RawData): Buffer =>
  Buffer.isBuffer(raw) ? raw : Array.isArray(raw) ? Buffer.concat(raw) : Buffer.from(raw);

/** Whole characters. */
function atMost(why: string): string {
  let text = why;
  while (Buffer.byteLength(text) > MOST_REASON_BYTES) text = text.slice(0, -1);
  return text.toWellFormed();
}
