import type { LogLine } from '../../contract.ts';
import { makeDemultiplexer } from '../client/streams.ts';

export const LINE_LIMIT_BYTES = 16 * 1024;
const TIME_BYTES = 64;
const NEWLINE = 0x0a;

export type LineReader = {
  push(bytes: Buffer): LogLine[];
  /** The last line, if unterminated. */
  rest(): LogLine[];
};

export function makeLineReader(): LineReader {
  const line = new Line();
  return {
    push(bytes) {
      const lines: LogLine[] = [];
      let from = 0;
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
        line.add(bytes.subarray(from, end));
        lines.push(line.end());
        from = end + 1;
      }
      line.add(bytes.subarray(from));
      return lines;
    },
    rest: () => (line.started ? [line.end()] : []),
  };
}

/** Reader of frames: a time, then a piece of a line; a line end marks the last piece. */
export function makeFrameReader(): LineReader {
  const sources = { stdout: new Framed(), stderr: new Framed() };
  let lines: LogLine[] = [];
  const demultiplex = makeDemultiplexer((source, bytes, ends) => {
    const line = sources[source].add(bytes, ends);
    if (line !== null) lines.push(line);
  });
  return {
    push(bytes) {
      lines = [];
      demultiplex(bytes);
      return lines;
    },
    rest: () => Object.values(sources).flatMap(({ line }) => (line.started ? [line.end()] : [])),
  };
}

class Framed {
  readonly line = new Line();
  #frame = Buffer.alloc(0);
  #last = 0;

  add(bytes: Buffer, ends: boolean): LogLine | null {
    this.#last = bytes.at(-1) ?? this.#last;
    const free = TIME_BYTES + LINE_LIMIT_BYTES + 1 - this.#frame.length;
    if (free > 0) this.#frame = Buffer.concat([this.#frame, bytes.subarray(0, free)]);
    if (!ends) return null;
    const frame = this.#frame;
    this.#frame = Buffer.alloc(0);
    const space = frame.subarray(0, TIME_BYTES).indexOf(' ');
    const atMs = Date.parse(frame.toString('latin1', 0, Math.max(0, space)));
    const complete = this.#last === NEWLINE;
    const until = frame.at(-1) === NEWLINE ? -1 : undefined;
    this.line.add(frame.subarray(Number.isNaN(atMs) ? 0 : space + 1, until), Number.isNaN(atMs) ? null : atMs);
    return complete ? this.line.end() : null;
  }
}

class Line {
  #parts: Buffer[] = [];
  #remaining = LINE_LIMIT_BYTES;
  #cut = false;
  #atMs: number | null = null;
  started = false;

  add(bytes: Buffer, atMs: number | null = null): void {
    if (!this.started) this.#atMs = atMs;
    if (bytes.length === 0 && atMs === null) return;
    this.started = true;
    const part = bytes.subarray(0, this.#remaining);
    if (part.length < bytes.length) this.#cut = true;
    this.#remaining -= part.length;
    if (part.length > 0) this.#parts.push(Buffer.from(part)); // a slice retains its chunk
  }

  end(): LogLine {
    // `stream` makes the decoder drop a character split by the limit.
    const decoder = new TextDecoder();
    const text = decoder.decode(Buffer.concat(this.#parts), { stream: this.#cut });
    const line = { atMs: this.#atMs, text, cut: this.#cut };
    this.#parts = [];
    this.#remaining = LINE_LIMIT_BYTES;
    this.#cut = false;
    this.#atMs = null;
    this.started = false;
    return line;
  }
}
