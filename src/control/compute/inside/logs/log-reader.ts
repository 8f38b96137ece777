import type { LogLine } from '../../../../engines/contract.ts';

export interface PositionedLine {
  line: LogLine;
  /** Resume after this; null: resume after the line before. */
  position: string | null;
  gap: boolean;
}

export type LogStart = { after: string } | { sinceMs: number } | { beginning: true };
export type LogSelection = LogStart | { tail: number };

export interface LogReader {
  /** Stored lines, oldest first. Throws an `EngineFault`. */
  read(from: LogSelection, untilMs: number | undefined, signal: AbortSignal): AsyncIterable<PositionedLine>;
  /** Stored lines, then new ones until the run ends. An abort is no error. */
  follow(from: LogStart, signal: AbortSignal): AsyncIterable<PositionedLine>;
}

const TAIL_BYTES = 1024 * 1024;

export const bytesOf = ({ text }: LogLine): number => Buffer.byteLength(text);

export async function lastLines(lines: AsyncIterable<PositionedLine>, count: number): Promise<PositionedLine[]> {
  const last: PositionedLine[] = [];
  let bytes = 0;
  let from = 0;
  for await (const positioned of lines) {
    last.push(positioned);
    bytes += bytesOf(positioned.line);
    for (; last.length - from > count || (bytes > TAIL_BYTES && last.length - from > 1); from += 1) {
      const first = last[from];
      if (first) bytes -= bytesOf(first.line);
    }
    if (from > count) last.splice(0, from);
    if (from > count) from = 0;
  }
  return last.slice(from);
}
