/** From the bytes of a log to its lines, each no longer than the bound: what comes after that is counted and dropped. */
import type { LogLine } from '../../contract.ts';
import { makeDemultiplexer } from './streams.ts';

export const LINE_LIMIT_BYTES = 16 * 1024;
/** More than any time in front of a line. */
const TIME_BYTES = 64;
const NEWLINE = 0x0a;

export type ReadLines = {
  /** The lines that are complete with these bytes. */
  take(bytes: Buffer): LogLine[];
  /** At the end: last words without an end of line. */
  rest(): LogLine[];
};

/** Of a file without times. */
export function makeLineReader(): ReadLines {
  const line = new Line();
  return {
    take(bytes) {
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
    rest: () => (line.begun ? [line.end()] : []),
  };
}

/** Of the engine's frames: each a piece of a line, with its time in front; the last of a line ends with the end of the line. */
export function makeFrameReader(): ReadLines {
  const sources = { stdout: new Framed(), stderr: new Framed() };
  let lines: LogLine[] = [];
  const demultiplex = makeDemultiplexer((source, bytes, ends) => {
    const line = sources[source].add(bytes, ends);
    if (line !== null) lines.push(line);
  });
  return {
    take(bytes) {
      lines = [];
      demultiplex(bytes);
      return lines;
    },
    rest: () => Object.values(sources).flatMap(({ line }) => (line.begun ? [line.end()] : [])),
  };
}

class Framed {
  readonly line = new Line();
  /** Of the present frame, up to its bound. */
  #frame = Buffer.alloc(0);
  #last = 0;

  add(bytes: Buffer, ends: boolean): LogLine | null {
    this.#last = bytes.at(-1) ?? this.#last;
    const room = TIME_BYTES + LINE_LIMIT_BYTES + 1 - this.#frame.length;
    if (room > 0) this.#frame = Buffer.concat([this.#frame, bytes.subarray(0, room)]);
    if (!ends) return null;
    const frame = this.#frame;
    this.#frame = Buffer.alloc(0);
    const space = frame.subarray(0, TIME_BYTES).indexOf(' ');
    const atMs = Date.parse(frame.toString('latin1', 0, Math.max(0, space)));
    const whole = this.#last === NEWLINE;
    const until = frame.at(-1) === NEWLINE ? -1 : undefined;
    this.line.add(frame.subarray(Number.isNaN(atMs) ? 0 : space + 1, until), Number.isNaN(atMs) ? null : atMs);
    return whole ? this.line.end() : null;
  }
}

class Line {
  #parts: Buffer[] = [];
  #left = LINE_LIMIT_BYTES;
  #cut = false;
  #atMs: number | null = null;
  begun = false;

  add(bytes: Buffer, atMs: number | null = null): void {
    if (!this.begun) this.#atMs = atMs;
    if (bytes.length === 0 && atMs === null) return;
    this.begun = true;
    const part = bytes.subarray(0, this.#left);
    if (part.length < bytes.length) this.#cut = true;
    this.#left -= part.length;
    if (part.length > 0) this.#parts.push(Buffer.from(part)); // a copy: the chunk it was cut from is large
  }

  end(): LogLine {
    // The decoder keeps back what the bound cut off of a character.
    const decoder = new TextDecoder();
    const text = decoder.decode(Buffer.concat(this.#parts), { stream: this.#cut });
    const line = { atMs: this.#atMs, text, cut: this.#cut };
    this.#parts = [];
    this.#left = LINE_LIMIT_BYTES;
    this.#cut = false;
    this.#atMs = null;
    this.begun = false;
    return line;
  }
}
