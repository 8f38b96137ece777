/** Reads the responses of one connection to an instance, one at a time, from pieces as they come. Pure: bytes in, calls out. */
import { ChunkedBody } from './chunked-body.ts';
import { readResponseHead, ResponseFault, type ResponseHead } from './response-head.ts';

export interface ResponseSink {
  /** With a status below 200 another one follows. */
  onHead(head: ResponseHead): void;
  onData(chunk: Buffer): void;
  /** Name, value, name, value … */
  onEnd(trailers: string[]): void;
}

const HEAD_END = Buffer.from('\r\n\r\n');
const NONE: string[] = [];

export class ResponseReader {
  readonly #maxHeaderBytes: number;
  #method = 'GET';
  #mayUpgrade = false;
  #sink: ResponseSink | null = null;
  /** Of a head that came in pieces. */
  #begun: Buffer | null = null;
  #chunked: ChunkedBody | null = null;
  /** Bytes of the body to come: -1 within the head, `Infinity` until the connection ends. */
  #left = -1;

  constructor(maxHeaderBytes: number) {
    this.#maxHeaderBytes = maxHeaderBytes;
  }

  /** A response is expected, to a request of this method. `mayUpgrade`: what comes behind a 101 is handed on as data. */
  expect(method: string, sink: ResponseSink, mayUpgrade = false): void {
    this.#mayUpgrade = mayUpgrade;
    this.#method = method;
    this.#sink = sink;
    this.#left = -1;
  }

  /** Throws a ResponseFault for what is no response, or one that nobody asked for. */
  feed(piece: Buffer): void {
    let at = 0;
    while (at < piece.length) {
      if (this.#sink === null) throw new ResponseFault('a response that nobody asked for');
      at = this.#left === -1 ? this.#feedHead(piece, at) : this.#feedBody(piece, at, this.#sink);
    }
  }

  /** The instance has ended its side: whether that was the end of a response that ends so. */
  end(): boolean {
    if (this.#sink === null || this.#left !== Infinity || this.#chunked !== null) return false;
    this.#finish(this.#sink, NONE);
    return true;
  }

  /** Where reading goes on. */
  #feedHead(piece: Buffer, at: number): number {
    const begun = this.#begun;
    const whole = begun === null ? piece : Buffer.concat([begun, piece.subarray(at)]);
    const from = begun === null ? at : 0;
    const end = whole.indexOf(HEAD_END, begun === null ? from : Math.max(0, begun.length - 3));
    if ((end < 0 ? whole.length : end) - from > this.#maxHeaderBytes) throw new ResponseFault('a head without end');
    if (end < 0) {
      // A copy, as the piece may be a part of something large.
      this.#begun = Buffer.from(whole.subarray(from));
      return piece.length;
    }
    this.#begun = null;
    this.#onHead(readResponseHead(whole.toString('latin1', from, end), this.#method));
    const next = end + HEAD_END.length;
    return begun === null ? next : at + next - begun.length;
  }

  #onHead(head: ResponseHead): void {
    const sink = this.#sink;
    if (sink === null) return;
    if (head.status === 101) {
      if (!this.#mayUpgrade) throw new ResponseFault('an upgrade that nobody asked for');
      this.#left = Infinity;
    }
    if (head.status >= 200) {
      this.#chunked = head.framing === 'chunked' ? new ChunkedBody(this.#maxHeaderBytes) : null;
      this.#left = typeof head.framing === 'number' ? head.framing : Infinity;
    }
    sink.onHead(head);
    if (head.status >= 200 && this.#left === 0) this.#finish(sink, NONE);
  }

  #feedBody(piece: Buffer, at: number, sink: ResponseSink): number {
    if (this.#chunked !== null) {
      const end = this.#chunked.feed(piece, at, sink);
      if (end < 0) return piece.length;
      const trailers = this.#chunked.trailers();
      this.#chunked = null;
      this.#finish(sink, trailers);
      return end;
    }
    const end = Math.min(piece.length, at + this.#left);
    this.#left -= end - at;
    sink.onData(at === 0 && end === piece.length ? piece : piece.subarray(at, end));
    if (this.#left === 0) this.#finish(sink, NONE);
    return end;
  }

  #finish(sink: ResponseSink, trailers: string[]): void {
    this.#sink = null;
    this.#left = -1;
    sink.onEnd(trailers);
  }
}
