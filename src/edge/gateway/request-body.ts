/** The body of a client's request on its way to an instance: as much is read as the instance takes. */
import type { ClientRequest } from './client-exchange.ts';
import type { InstanceConnection } from './instance-connection.ts';

export class RequestBody {
  /** Its length is not known: it goes in chunks. */
  readonly chunked: boolean;
  /** Grows with each piece that comes or is taken. */
  moves = 0;
  /** The instance has not taken what it was given. */
  #isFull = false;
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
    this.#req.off('data', this.#onData);
    this.#req.off('end', this.#onEnd);
    this.#req.off('close', this.#onClose);
    this.#req.resume();
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
    if (this.chunked ? passChunk(connection, chunk) : connection.write(chunk)) return;
    this.#isFull = true;
    this.#req.pause();
    connection.onDrain(() => {
      this.#isFull = false;
      this.moves += 1;
      if (this.#connection !== null) this.#req.resume();
    });
  }

  #end(): void {
    const connection = this.#connection;
    if (connection === null || !this.#req.complete) return;
    if (this.chunked) connection.write('0\r\n\r\n');
    else if (this.#left > 0) connection.destroy(new Error('a body shorter than its length'));
    connection.sent();
  }
}

function passChunk(connection: InstanceConnection, chunk: Buffer): boolean {
  connection.cork();
  connection.write(`${chunk.length.toString(16)}\r\n`);
  connection.write(chunk);
  const goesOn = connection.write('\r\n');
  connection.uncork();
  return goesOn;
}
