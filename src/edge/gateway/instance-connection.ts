/** HTTP/1 connection to an instance, for sequential requests. A protocol error ends it. */
import type { Duplex } from 'node:stream';
import { asError } from '../../domain/kernel/unknown-error.ts';
import type { ResponseHead } from './response-head.ts';
import { ResponseReader, type ResponseSink } from './response-reader.ts';

export interface Receiver {
  onHead(head: ResponseHead): void;
  /** Returns false to pause until `resume`. */
  onData(chunk: Buffer): boolean;
  onEnd(trailers: string[]): void;
  onPieceEnd(): void;
  onBroken(error: Error): void;
}

export interface ConnectionDeps {
  maxHeaderBytes: number;
  /** Default idle time when the instance announces none. */
  idleMs: number;
  elapsed: () => number;
  onIdle: (connection: InstanceConnection) => void;
  onGone: (connection: InstanceConnection) => void;
}

/** Closes idle connections before the instance does: a request sent meanwhile would be lost. */
const MARGIN_S = 2;
const LONGEST_IDLE_MS = 60_000;

export class InstanceConnection implements ResponseSink {
  readonly #stream: Duplex;
  readonly #deps: ConnectionDeps;
  readonly #reader: ResponseReader;
  #receiver: Receiver | null = null;
  #sent = false;
  #answered = false;
  #keepAlive = false;
  #idleMs = 0;
  #untilMs = 0;
  #error: Error | null = null;
  served = 0;

  constructor(stream: Duplex, deps: ConnectionDeps) {
    this.#stream = stream;
    this.#deps = deps;
    this.#reader = new ResponseReader(deps.maxHeaderBytes);
    stream.on('data', (piece: Buffer) => this.#onPiece(piece));
    stream.on('end', () => this.#onStreamEnd());
    stream.on('error', (error) => (this.#error ??= error));
    stream.on('close', () => this.#onClose());
  }

  /** Sends a request head; the whole request if no body follows. */
  send(method: string, head: string, bodyFollows: boolean, receiver: Receiver): void {
    this.#receiver = receiver;
    this.#sent = !bodyFollows;
    this.#answered = false;
    this.#reader.expect(method, this);
    this.#stream.write(head, 'latin1');
  }

  /** Writes framed body bytes. Returns false until `onDrain`. */
  write(bytes: Buffer | string): boolean {
    return this.#stream.destroyed || this.#stream.write(bytes, 'latin1');
  }

  onDrain(listener: () => void): void {
    this.#stream.once('drain', listener);
  }

  cork(): void {
    this.#stream.cork();
  }

  uncork(): void {
    this.#stream.uncork();
  }

  sent(): void {
    this.#sent = true;
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  isGood(): boolean {
    return !this.#stream.destroyed && this.#deps.elapsed() < this.#untilMs;
  }

  destroy(error?: Error): void {
    if (error !== undefined) this.#error ??= error;
    this.#stream.destroy();
  }

  onHead(head: ResponseHead): void {
    if (head.status >= 200) {
      this.#keepAlive = head.keepAlive;
      this.#idleMs =
        head.keepAliveS === null ? this.#deps.idleMs : Math.min((head.keepAliveS - MARGIN_S) * 1_000, LONGEST_IDLE_MS);
    }
    this.#receiver?.onHead(head);
  }

  onData(chunk: Buffer): void {
    if (this.#receiver?.onData(chunk) === false) this.#stream.pause();
  }

  onEnd(trailers: string[]): void {
    this.#receiver?.onEnd(trailers);
    this.#answered = true;
  }

  #onPiece(piece: Buffer): void {
    const receiver = this.#receiver;
    try {
      this.#reader.feed(piece);
      if (receiver !== null && !this.#answered) receiver.onPieceEnd();
    } catch (error) {
      // A head that Node refuses to write must fail only this request.
      this.destroy(asError(error));
      return;
    }
    if (receiver === null || !this.#answered) return;
    // The response ended before the request: the rest would be parsed as the next request.
    if (this.#sent) this.#rest();
    else this.destroy();
  }

  #rest(): void {
    this.#receiver = null;
    if (!this.#keepAlive || this.#idleMs <= 0) {
      this.destroy();
      return;
    }
    this.served += 1;
    this.#untilMs = this.#deps.elapsed() + this.#idleMs;
    if (this.#stream.isPaused()) this.#stream.resume();
    this.#deps.onIdle(this);
  }

  #onStreamEnd(): void {
    // An instance that ended its side has no more to answer.
    this.#reader.end();
    this.destroy();
  }

  #onClose(): void {
    this.#deps.onGone(this);
    const receiver = this.#receiver;
    this.#receiver = null;
    if (!this.#answered) receiver?.onBroken(this.#error ?? new Error('the instance closed the connection'));
  }
}
