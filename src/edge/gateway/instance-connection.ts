/**
 * One connection to a port of an instance, on which requests follow one another: each is written with a head of our making, and its response
 * read before the next. Whatever is not in order ends the connection, and with it the request under way.
 */
import type { Duplex } from 'node:stream';
import type { ResponseHead } from './response-head.ts';
import { ResponseReader, type ResponseSink } from './response-reader.ts';

/** Who waits for a response. */
export interface Receiver {
  onHead(head: ResponseHead): void;
  /** False: nothing more until `resume`. */
  onData(chunk: Buffer): boolean;
  onEnd(trailers: string[]): void;
  /** All that has come by now was handed over. */
  onPieceEnd(): void;
  /** No end will come. */
  onBroken(error: Error): void;
}

export interface ConnectionDeps {
  maxHeaderBytes: number;
  /** Of one that says nothing of it. */
  idleMs: number;
  now: () => number;
  /** It is at rest, and may be asked again. */
  onRest: (connection: InstanceConnection) => void;
  onGone: (connection: InstanceConnection) => void;
}

/** Before an instance closes an idle connection we do: what is sent meanwhile would be lost. */
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
  /** Since the last head. */
  #idleMs = 0;
  #untilMs = 0;
  #error: Error | null = null;
  /** Requests that came over it before this one. */
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

  /** The head of a request; of a whole one, if no body follows. */
  send(method: string, head: string, bodyFollows: boolean, receiver: Receiver): void {
    this.#receiver = receiver;
    this.#sent = !bodyFollows;
    this.#answered = false;
    this.#reader.expect(method, this);
    this.#stream.write(head, 'latin1');
  }

  /** Of the body, framed already. False: wait for `onDrain`. */
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

  /** The whole request is written. */
  sent(): void {
    this.#sent = true;
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  /** Of one at rest: whether the instance will not have closed it by now. */
  isGood(): boolean {
    return !this.#stream.destroyed && this.#deps.now() < this.#untilMs;
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
      // Also what Node will not write: it must end nobody but this request.
      this.destroy(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    if (receiver === null || !this.#answered) return;
    // An answer before the end of the request: what is still sent of that would be read as the next one.
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
    this.#untilMs = this.#deps.now() + this.#idleMs;
    if (this.#stream.isPaused()) this.#stream.resume();
    this.#deps.onRest(this);
  }

  #onStreamEnd(): void {
    // Whoever ended its side has nothing more to answer.
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
