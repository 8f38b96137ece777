/** Decodes a chunked body (RFC 9112 §7.1) strictly. Ignores extensions, returns trailers. */
import { readFields, ResponseFault } from './response-head.ts';

export interface BodySink {
  onData(chunk: Buffer): void;
}

type Stage = 'size' | 'data' | 'dataEnd' | 'trailers';

const CR = 0x0d;
const LF = 0x0a;
const MAX_LINE_BYTES = 4_096;
const SIZE = /^([0-9a-f]{1,13})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/i;

export class ChunkedBody {
  readonly #maxTrailerBytes: number;
  #stage: Stage = 'size';
  /** Bytes left of the current chunk; within `dataEnd`, of its CRLF. */
  #left = 0;
  #line = '';
  #trailers = '';

  constructor(maxTrailerBytes: number) {
    this.#maxTrailerBytes = maxTrailerBytes;
  }

  /**
   * Returns the offset after the body, or -1 if the body continues. The sink gets a piece whole,
   * even if full: buffering parts costs many times their bytes.
   */
  feed(piece: Buffer, from: number, sink: BodySink): number {
    const parts: Buffer[] = [];
    try {
      return this.#read(piece, from, parts);
    } finally {
      const [first] = parts;
      if (first !== undefined) sink.onData(parts.length === 1 ? first : Buffer.concat(parts));
    }
  }

  #read(piece: Buffer, from: number, parts: Buffer[]): number {
    let position = from;
    while (position < piece.length) {
      switch (this.#stage) {
        case 'data': {
          const end = Math.min(piece.length, position + this.#left);
          this.#left -= end - position;
          parts.push(position === 0 && end === piece.length ? piece : piece.subarray(position, end));
          position = end;
          if (this.#left > 0) break;
          this.#stage = 'dataEnd';
          this.#left = 2;
          break;
        }
        case 'dataEnd':
          if (piece[position] !== (this.#left === 2 ? CR : LF)) throw new ResponseFault('a chunk longer than its size');
          position += 1;
          this.#left -= 1;
          if (this.#left === 0) this.#stage = 'size';
          break;
        case 'size':
        case 'trailers': {
          const end = piece.indexOf(LF, position);
          this.#line += piece.toString('latin1', position, end < 0 ? piece.length : end + 1);
          this.#checkLength();
          if (end < 0) return -1;
          position = end + 1;
          if (this.#onLine()) return position;
          break;
        }
        default:
          this.#stage satisfies never;
      }
    }
    return -1;
  }

  trailers(): string[] {
    return readFields(this.#trailers, 0);
  }

  #checkLength(): void {
    const isOver =
      this.#stage === 'size'
        ? this.#line.length > MAX_LINE_BYTES
        : this.#trailers.length + this.#line.length > this.#maxTrailerBytes;
    if (isOver) throw new ResponseFault('a chunk header or trailers beyond the size limit');
  }

  #onLine(): boolean {
    const line = this.#line;
    this.#line = '';
    if (!line.endsWith('\r\n')) throw new ResponseFault('a chunk header that does not end in CRLF');
    const text = line.slice(0, -2);
    if (this.#stage === 'size') {
      const digits = SIZE.exec(text)?.[1];
      if (digits === undefined) throw new ResponseFault('a chunk without a size');
      this.#left = Number.parseInt(digits, 16);
      this.#stage = this.#left === 0 ? 'trailers' : 'data';
      return false;
    }
    if (text === '') return true;
    this.#trailers += line;
    return false;
  }
}
