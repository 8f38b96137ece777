/** Parses consecutive responses of one connection from pieces. Pure: bytes in, calls out. */
import { ChunkedBody } from './chunked-body.ts';
import { readResponseHead, ResponseFault, type ResponseHead } from './response-head.ts';

export interface ResponseSink {
  /** After a 1xx head another one follows. */
  onHead(head: ResponseHead): void;
  onData(chunk: Buffer): void;
  onEnd(trailers: string[]): void;
}

const HEAD_END = Buffer.from('\r\n\r\n');
const NONE: string[] = [];

export class ResponseReader {
  readonly #maxHeaderBytes: number;
  #method = 'GET';
  #mayUpgrade = false;
  #sink: ResponseSink | null = null;
  #begun: Buffer | null = null;
  #chunked: ChunkedBody | null = null;
  /** Body bytes left: -1 within the head, `Infinity` until the connection ends. */
  #left = -1;

  constructor(maxHeaderBytes: number) {
    this.#maxHeaderBytes = maxHeaderBytes;
  }

  /** Expects a response to a request of this method. `mayUpgrade`: bytes after a 101 are data. */
  expect(method: string, sink: ResponseSink, mayUpgrade = false): void {
    this.#mayUpgrade = mayUpgrade;
    this.#method = method;
    this.#sink = sink;
    this.#left = -1;
  }

  /** Throws ResponseFault on a malformed or unexpected response. */
  feed(piece: Buffer): void {
    let at = 0;
    while (at < piece.length) {
      if (this.#sink === null) throw new ResponseFault('a response without a request');
      at = this.#left === -1 ? this.#feedHead(piece, at) : this.#feedBody(piece, at, this.#sink);
    }
  }

  /** The instance ended its side. Returns whether that completes the response. */
  end(): boolean {
    if (this.#sink === null || this.#left !== Infinity || this.#chunked !== null) return false;
    this.#finish(this.#sink, NONE);
    return true;
  }

  #feedHead(piece: Buffer, position: number): number {
    const begun = this.#begun;
    const whole = begun === null ? piece : Buffer.concat([begun, piece.subarray(position)]);
    const from = begun === null ? position : 0;
    const end = whole.indexOf(HEAD_END, begun === null ? from : Math.max(0, begun.length - 3));
    if ((end < 0 ? whole.length : end) - from > this.#maxHeaderBytes)
      throw new ResponseFault('a response head beyond the size limit');
    if (end < 0) {
      // A copy: the piece may be a slice of a large buffer.
      this.#begun = Buffer.from(whole.subarray(from));
      return piece.length;
    }
    this.#begun = null;
    this.#onHead(readResponseHead(whole.toString('latin1', from, end), this.#method));
    const next = end + HEAD_END.length;
    return begun === null ? next : position + next - begun.length;
  }

  #onHead(head: ResponseHead): void {
    const sink = this.#sink;
    if (sink === null) return;
    if (head.status === 101) {
      if (!this.#mayUpgrade) throw new ResponseFault('an upgrade without a request for one');
      this.#left = Infinity;
    }
    if (head.status >= 200) {
      this.#chunked = head.framing === 'chunked' ? new ChunkedBody(this.#maxHeaderBytes) : null;
      this.#left = typeof head.framing === 'number' ? head.framing : Infinity;
    }
    sink.onHead(head);
    if (head.status >= 200 && this.#left === 0) this.#finish(sink, NONE);
  }

  #feedBody(piece: Buffer, position: number, sink: ResponseSink): number {
    if (this.#chunked !== null) {
      const end = this.#chunked.feed(piece, position, sink);
      if (end < 0) return piece.length;
      const trailers = this.#chunked.trailers();
      this.#chunked = null;
      this.#finish(sink, trailers);
      return end;
    }
    const end = Math.min(piece.length, position + this.#left);
    this.#left -= end - position;
    sink.onData(position === 0 && end === piece.length ? piece : piece.subarray(position, end));
    if (this.#left === 0) this.#finish(sink, NONE);
    return end;
  }

  #finish(sink: ResponseSink, trailers: string[]): void {
    this.#sink = null;
    this.#left = -1;
    sink.onEnd(trailers);
  }
}
