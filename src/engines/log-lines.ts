/** Lines of logs, bounded in length whatever a program writes. */
import type { LogLine } from './contract.ts';

export const LINE_LIMIT_BYTES = 16 * 1024;
/** Longest time before a line. */
export const TIME_BYTES = 64;
const NEWLINE = 0x0a;

export type LineReader = {
  push(bytes: Buffer): LogLine[];
  /** The last line, if unterminated. */
  rest(): LogLine[];
};

export const makeLineReader = (): LineReader => readLines(() => new Line());

/** Reader of lines that begin with a time and a space. */
export const makeTimedLineReader = (): LineReader => readLines(() => new TimedLine());

type Part = Pick<Line, 'add' | 'end' | 'started'>;

function readLines(makeLine: () => Part): LineReader {
  const line = makeLine();
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

export class Line {
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

class TimedLine implements Part {
  readonly #line = new Line();
  #head: Buffer | null = Buffer.alloc(0);

  get started(): boolean {
    return this.#line.started || (this.#head?.length ?? 0) > 0;
  }

  add(bytes: Buffer): void {
    if (this.#head === null) return this.#line.add(bytes);
    const head = Buffer.concat([this.#head, bytes]);
    const space = head.subarray(0, TIME_BYTES).indexOf(' ');
    if (space < 0 && head.length < TIME_BYTES) {
      this.#head = head;
      return;
    }
    const atMs = Date.parse(head.toString('latin1', 0, Math.max(0, space)));
    this.#head = null;
    this.#line.add(head.subarray(Number.isNaN(atMs) ? 0 : space + 1), Number.isNaN(atMs) ? null : atMs);
  }

  end(): LogLine {
    if (this.#head !== null && this.#head.length > 0) this.#line.add(this.#head);
    this.#head = Buffer.alloc(0);
    return this.#line.end();
  }
}
