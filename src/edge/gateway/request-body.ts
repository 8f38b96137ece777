/**
 * The body of a client's request on its way to an instance: as much is read as the instance takes. Of HTTP/1.1 the connection is stopped, and
 * what came until then is held in one piece: Node stops a request by its bytes, and 64 KiB of chunks of one byte would be megabytes of pieces.
 */
import type { ClientRequest } from './client-exchange.ts';
import type { InstanceConnection } from './instance-connection.ts';

/** Smaller ones are joined to what else comes in the same piece. */
const SMALL_BYTES = 1_024;

export class RequestBody {
  /** Its length is not known: it goes in chunks. */
  readonly chunked: boolean;
  /** Grows with each piece that comes or is taken. */
  moves = 0;
  /** The instance has not taken what it was given. */
  #isFull = false;
  /** Small pieces of what is coming just now, and what came while it was full. */
  #held: Buffer[] = [];
  #gathers = false;
  /** All has come, and some of it is held. */
  #endWaits = false;
  readonly #req: ClientRequest;
  #left: number;
  #connection: InstanceConnection | null = null;
  readonly #onData = (chunk: Buffer): void => this.#pass(chunk);
  readonly #onEnd = (): void => this.#end();
  readonly #onClose = (): void => {
    if (!this.#req.complete) this.#connection?.destroy(new Error('the client broke off its request'));
  };

  /** `contentLength`: as the client said it; null for a body that ends by itself. */
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

  /** Nobody wants the rest. */
  stop(): void {
    this.#connection = null;
    this.#held = [];
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
    // Both HTTPs hold a client to the length that it said: what is more would be another request inside.
    if (this.#left < 0) {
      connection.destroy(new Error('a body longer than its length'));
      return;
    }
    if (!this.#isFull && this.#held.length === 0 && chunk.length >= SMALL_BYTES) return this.#give(connection, chunk);
    this.#held.push(chunk);
    if (this.#gathers) return;
    this.#gathers = true;
    setImmediate(() => this.#gather());
  }

  /** Once the piece in hand is read: ticks pass between its chunks. */
  #gather(): void {
    this.#gathers = false;
    if (!this.#isFull) this.#giveHeld();
    else if (this.#held.length > 1) this.#held = [Buffer.concat(this.#held)];
  }

  #giveHeld(): void {
    const held = this.#held;
    this.#held = [];
    if (this.#connection !== null && held.length > 0) this.#give(this.#connection, Buffer.concat(held));
  }

  #give(connection: InstanceConnection, chunk: Buffer): void {
    if (this.chunked ? passChunk(connection, chunk) : connection.write(chunk)) return;
    this.#isFull = true;
    this.#halt();
    connection.onDrain(() => {
      this.#isFull = false;
      this.moves += 1;
      if (this.#connection === null) return;
      this.#giveHeld();
      if (this.#isFull) return;
      if (this.#endWaits) this.#end();
      else this.#goOn();
    });
  }

  #halt(): void {
    if (isFramed(this.#req)) return void this.#req.pause();
    // Not within the piece in hand: Node would read on at its end.
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
    if (!this.#isFull) this.#giveHeld();
    this.#endWaits = this.#held.length > 0;
    if (this.#endWaits) return;
    if (this.chunked) connection.write('0\r\n\r\n');
    else if (this.#left > 0) connection.destroy(new Error('a body shorter than its length'));
    connection.sent();
  }
}

/** Of HTTP/2: its connection is for other requests as well. */
const isFramed = ({ httpVersion }: ClientRequest): boolean => httpVersion.startsWith('2');

function passChunk(connection: InstanceConnection, chunk: Buffer): boolean {
  connection.cork();
  connection.write(`${chunk.length.toString(16)}\r\n`);
  connection.write(chunk);
  const goesOn = connection.write('\r\n');
  connection.uncork();
  return goesOn;
}
