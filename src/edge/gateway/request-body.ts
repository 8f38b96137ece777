/**
 * Streams a client's body to an instance with backpressure. Joins small chunks: Node pauses by
 * bytes, and 64 KiB of one-byte chunks would cost megabytes.
 */
import type { ClientRequest } from './client-exchange.ts';
import type { InstanceConnection } from './instance-connection.ts';

const SMALL_BYTES = 1_024;

export class RequestBody {
  readonly chunked: boolean;
  /** Grows with each chunk that arrives or leaves. */
  moves = 0;
  #isFull = false;
  /** Small chunks, and chunks that arrived while the instance's buffer was full. */
  #buffered: Buffer[] = [];
  #gathers = false;
  #endWaits = false;
  readonly #req: ClientRequest;
  #left: number;
  #connection: InstanceConnection | null = null;
  readonly #onData = (chunk: Buffer): void => this.#pass(chunk);
  readonly #onEnd = (): void => this.#end();
  readonly #onClose = (): void => {
    if (!this.#req.complete) this.#connection?.destroy(new Error('the client aborted its request'));
  };

  /** `contentLength`: as sent by the client; null for chunked bodies. */
  constructor(req: ClientRequest, contentLength: string | null) {
    this.#req = req;
    this.chunked = contentLength === null;
    this.#left = contentLength === null ? Infinity : Number(contentLength);
    req.pause();
  }

  get waitsForClient(): boolean {
    return this.#connection !== null && !this.#isFull && !this.#req.complete;
  }

  flowTo(connection: InstanceConnection): void {
    this.#connection = connection;
    this.#req.on('data', this.#onData);
    this.#req.on('end', this.#onEnd);
    this.#req.on('close', this.#onClose);
    this.#req.resume();
  }

  stop(): void {
    this.#connection = null;
    this.#buffered = [];
    this.#req.off('data', this.#onData);
    this.#req.off('end', this.#onEnd);
    this.#req.off('close', this.#onClose);
    this.#goOn();
  }

  #pass(chunk: Buffer): void {
    const connection = this.#connection;
    if (connection === null || chunk.length === 0) return;
    this.moves += 1;
    this.#left -= chunk.length;
    // Node enforces the length; a surplus would be parsed as another request.
    if (this.#left < 0) {
      connection.destroy(new Error('a body longer than its length'));
      return;
    }
    if (!this.#isFull && this.#buffered.length === 0 && chunk.length >= SMALL_BYTES)
      return this.#give(connection, chunk);
    this.#buffered.push(chunk);
    if (this.#gathers) return;
    this.#gathers = true;
    setImmediate(() => this.#gather());
  }

  /** Flushes after the current piece: ticks pass between its chunks. */
  #gather(): void {
    this.#gathers = false;
    if (!this.#isFull) this.#flushBuffered();
    else if (this.#buffered.length > 1) this.#buffered = [Buffer.concat(this.#buffered)];
  }

  #flushBuffered(): void {
    const buffered = this.#buffered;
    this.#buffered = [];
    if (this.#connection !== null && buffered.length > 0) this.#give(this.#connection, Buffer.concat(buffered));
  }

  #give(connection: InstanceConnection, chunk: Buffer): void {
    if (this.chunked ? passChunk(connection, chunk) : connection.write(chunk)) return;
    this.#isFull = true;
    this.#halt();
    connection.onDrain(() => {
      this.#isFull = false;
      this.moves += 1;
      if (this.#connection === null) return;
      this.#flushBuffered();
      if (this.#isFull) return;
      if (this.#endWaits) this.#end();
      else this.#goOn();
    });
  }

  #halt(): void {
    if (isFramed(this.#req)) return void this.#req.pause();
    // Not within the current piece: Node would continue reading at its end.
    setImmediate(() => {
      if (this.#isFull && this.#connection !== null && !this.#req.complete) this.#req.socket.pause();
    });
  }

  #goOn(): void {
    this.#req.resume();
    if (!isFramed(this.#req) && this.#req.socket.isPaused()) this.#req.socket.resume();
  }

  #end(): void {
    const connection = this.#connection;
    if (connection === null || !this.#req.complete) return;
    if (!this.#isFull) this.#flushBuffered();
    this.#endWaits = this.#buffered.length > 0;
    if (this.#endWaits) return;
    if (this.chunked) connection.write('0\r\n\r\n');
    else if (this.#left > 0) connection.destroy(new Error('a body shorter than its length'));
    connection.sent();
  }
}

/** HTTP/2: the connection serves other requests too. */
const isFramed = ({ httpVersion }: ClientRequest): boolean => httpVersion.startsWith('2');

function passChunk(connection: InstanceConnection, chunk: Buffer): boolean {
  connection.cork();
  connection.write(`${chunk.length.toString(16)}\r\n`);
  connection.write(chunk);
  const hasCapacity = connection.write('\r\n');
  connection.uncork();
  return hasCapacity;
}
