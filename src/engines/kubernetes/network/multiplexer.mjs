/**
 * # Many connections over one stream of bytes
 *
 * Both ends of a relay (`relay-program.mjs`) speak this protocol over the input and output of one
 * command.
 * A frame is its kind (1 byte), the id of a stream (4), the length of its payload (4), and the
 * payload:
 *
 * - `message`: JSON between the two ends; the id is 0. Frames keep their order, so a message that
 *   announces a stream precedes the data of the stream.
 * - `data`, `end`: bytes of a stream, and their end. The other direction stays open.
 * - `reset`: the stream is destroyed at the sender. Frames that cross it are dropped.
 * - `window`: the reader took so many bytes (4); the writer may send as many more.
 *
 * A writer sends at most `WINDOW_BYTES` that its peer has not taken, so a slow reader delays its
 * own stream alone, and an end buffers at most that for each stream. While the connection is full,
 * streams wait, and then send a frame each in turn.
 *
 * Does no I/O. Plain JavaScript: the program in the Pod gets this file as it is.
 */
import { Duplex } from 'node:stream';

export const WINDOW_BYTES = 128 * 1024;
/** With its header, a frame is one message of the API's channel. */
export const PAYLOAD_BYTES = 32 * 1024 - 9;
const MESSAGE_BYTES = 16 * 1024;
const HEADER_BYTES = 9;
const BUFFER_BYTES = 16 * 1024;
export const kinds = /** @type {const} */ ({ message: 0, data: 1, end: 2, reset: 3, window: 4 });

/** The peer breaks the protocol, or is no relay. */
export class ProtocolError extends Error {}

/** @param {number} kind @param {number} id @param {Buffer} [payload] */
export function frame(kind, id, payload = Buffer.alloc(0)) {
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  bytes.writeUInt8(kind, 0);
  bytes.writeUInt32BE(id, 1);
  bytes.writeUInt32BE(payload.length, 5);
  payload.copy(bytes, HEADER_BYTES);
  return bytes;
}

/**
 * Returns a function that takes the bytes in pieces of any size.
 * @param {(kind: number, id: number, payload: Buffer) => void} onFrame
 */
export function makeFrameReader(onFrame) {
  /** @type {Buffer} */
  let rest = Buffer.alloc(0);
  return (/** @type {Buffer} */ bytes) => {
    let all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    while (all.length >= HEADER_BYTES) {
      const [kind, length] = [all.readUInt8(0), all.readUInt32BE(5)];
      if (kind > kinds.window || length > PAYLOAD_BYTES)
        throw new ProtocolError(`a frame of kind ${kind} with ${length} bytes`);
      if (all.length < HEADER_BYTES + length) break;
      onFrame(kind, all.readUInt32BE(1), all.subarray(HEADER_BYTES, HEADER_BYTES + length));
      all = all.subarray(HEADER_BYTES + length);
    }
    rest = all;
  };
}

/**
 * @typedef {object} Connection
 * @property {(bytes: Buffer) => boolean} write False: full, until `drained`.
 * @property {(message: unknown) => void} onMessage
 */

export class Multiplexer {
  /** @type {Connection} */
  #connection;
  /** @type {Map<number, Stream>} */
  #streams = new Map();
  /** Streams with bytes to send, and leave to send them, in order. @type {Set<Stream>} */
  #waiting = new Set();
  #isFull = false;
  #hasEnded = false;
  #read = makeFrameReader((kind, id, payload) => this.#onFrame(kind, id, payload));

  /** @param {Connection} connection */
  constructor(connection) {
    this.#connection = connection;
  }

  get size() {
    return this.#streams.size;
  }

  /**
   * A stream that both ends know by this id, which no stream had before.
   * @param {number} id @returns {Duplex}
   */
  open(id) {
    const stream = new Stream({
      id,
      send: (kind, payload) => this.#write(frame(kind, id, payload)),
      wait: () => {
        this.#waiting.add(stream);
        this.#sendWaiting();
      },
      forget: () => {
        this.#streams.delete(id);
        this.#waiting.delete(stream);
      },
    });
    if (this.#hasEnded) stream.destroy();
    else this.#streams.set(id, stream);
    return stream;
  }

  /** Refuses a stream that the peer has opened. @param {number} id */
  refuse(id) {
    this.#write(frame(kinds.reset, id));
  }

  /** @param {object} message */
  send(message) {
    this.#write(frame(kinds.message, 0, Buffer.from(JSON.stringify(message))));
  }

  /** Throws a `ProtocolError`. @param {Buffer} bytes */
  receive(bytes) {
    if (!this.#hasEnded) this.#read(bytes);
  }

  /** The connection takes bytes again. */
  drained() {
    this.#isFull = false;
    this.#sendWaiting();
  }

  /** Destroys all streams. The connection is lost, or is closed by the caller. */
  end() {
    this.#hasEnded = true;
    for (const stream of this.#streams.values()) stream.destroy();
    this.#waiting.clear();
  }

  /** @param {Buffer} bytes */
  #write(bytes) {
    if (!this.#hasEnded && !this.#connection.write(bytes)) this.#isFull = true;
  }

  #sendWaiting() {
    while (!this.#isFull) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      this.#waiting.delete(next);
      if (next.sendOne()) this.#waiting.add(next);
    }
  }

  /** @param {number} kind @param {number} id @param {Buffer} payload */
  #onFrame(kind, id, payload) {
    if (this.#hasEnded) return;
    if (kind === kinds.message) return this.#connection.onMessage(parse(payload));
    const stream = this.#streams.get(id);
    if (kind === kinds.data) stream?.takeData(payload);
    else if (kind === kinds.end) stream?.takeEnd();
    else if (kind === kinds.reset) stream?.takeReset();
    else stream?.takeWindow(payload);
  }
}

/** @param {Buffer} payload @returns {unknown} */
function parse(payload) {
  if (payload.length > MESSAGE_BYTES) throw new ProtocolError(`a message of ${payload.length} bytes`);
  try {
    return JSON.parse(payload.toString());
  } catch (error) {
    throw new ProtocolError('a message that is not JSON', { cause: error });
  }
}

/**
 * @typedef {object} Ends
 * @property {number} id
 * @property {(kind: number, payload?: Buffer) => void} send
 * @property {() => void} wait
 * @property {() => void} forget
 */

class Stream extends Duplex {
  /** @type {Ends} */
  #ends;
  /** Bytes that the peer still takes. */
  #credit = WINDOW_BYTES;
  /** Bytes that the peer may still send. */
  #allowance = WINDOW_BYTES;
  /** Taken by the reader, and not reported. */
  #taken = 0;
  /** @type {Buffer[]} */
  #received = [];
  #isWanted = false;
  #hasPeerEnded = false;
  #hasSentEnd = false;
  #wasReset = false;
  /** @type {{ bytes: Buffer, done: (error?: Error | null) => void } | undefined} */
  #pending;

  /** @param {Ends} ends */
  constructor(ends) {
    super({ allowHalfOpen: true, readableHighWaterMark: BUFFER_BYTES, writableHighWaterMark: BUFFER_BYTES });
    this.#ends = ends;
    // A caller may ignore errors, and sees the end.
    this.on('error', () => {});
  }

  /** Sends one frame. False: nothing more may be sent now. */
  sendOne() {
    const pending = this.#pending;
    if (pending === undefined || this.#credit === 0) return false;
    const size = Math.min(pending.bytes.length, this.#credit, PAYLOAD_BYTES);
    this.#credit -= size;
    this.#ends.send(kinds.data, pending.bytes.subarray(0, size));
    if (size < pending.bytes.length) {
      pending.bytes = pending.bytes.subarray(size);
      return this.#credit > 0;
    }
    this.#pending = undefined;
    pending.done();
    return false;
  }

  /** @param {Buffer} bytes */
  takeData(bytes) {
    this.#allowance -= bytes.length;
    if (this.#allowance < 0 || this.#hasPeerEnded) throw new ProtocolError('data beyond the window or the end');
    this.#received.push(bytes);
    this.#deliver();
  }

  takeEnd() {
    this.#hasPeerEnded = true;
    this.#deliver();
  }

  takeReset() {
    this.#wasReset = true;
    this.destroy(Object.assign(new Error('the connection was reset'), { code: 'ECONNRESET' }));
  }

  /** @param {Buffer} payload */
  takeWindow(payload) {
    const credit = payload.length === 4 ? this.#credit + payload.readUInt32BE(0) : Number.NaN;
    if (!(credit <= WINDOW_BYTES)) throw new ProtocolError('a window larger than it began');
    this.#credit = credit;
    if (this.#pending !== undefined) this.#ends.wait();
  }

  #deliver() {
    while (this.#isWanted) {
      const bytes = this.#received.shift();
      if (bytes === undefined) break;
      this.#isWanted = this.push(bytes);
      this.#taken += bytes.length;
    }
    if (this.#received.length === 0 && this.#hasPeerEnded) {
      this.#isWanted = false;
      if (!this.readableEnded) this.push(null);
    } else if (this.#taken >= WINDOW_BYTES / 2) this.#report();
  }

  #report() {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(this.#taken);
    this.#allowance += this.#taken;
    this.#taken = 0;
    this.#ends.send(kinds.window, payload);
  }

  /** @override */
  _read() {
    this.#isWanted = true;
    this.#deliver();
  }

  /**
   * @override
   * @param {Buffer} bytes @param {string} _encoding @param {(error?: Error | null) => void} done
   */
  _write(bytes, _encoding, done) {
    if (bytes.length === 0) return done();
    this.#pending = { bytes, done };
    if (this.#credit > 0) this.#ends.wait();
  }

  /** @override @param {(error?: Error | null) => void} done */
  _final(done) {
    this.#hasSentEnd = true;
    this.#ends.send(kinds.end);
    done();
  }

  /** @override @param {Error | null} error @param {(error?: Error | null) => void} done */
  _destroy(error, done) {
    this.#ends.forget();
    this.#received = [];
    if (!this.#wasReset && !(this.#hasPeerEnded && this.#hasSentEnd)) this.#ends.send(kinds.reset);
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.done(error ?? new Error('the connection was closed'));
    done(error);
  }
}
