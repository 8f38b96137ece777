import type { LogLine } from '../../contract.ts';
import { Line, LINE_LIMIT_BYTES, TIME_BYTES, type LineReader } from '../../log-lines.ts';
import { makeDemultiplexer } from '../../../docker/streams.ts';

const NEWLINE = 0x0a;

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
