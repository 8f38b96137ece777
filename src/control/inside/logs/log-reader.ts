/** What each source of an instance's log gives: its lines with where to go on after each, now or as they come. */
import type { LogLine } from '../../../engines/contract.ts';

export type LogKind = 'console' | 'init' | 'events';

export interface PositionedLine {
  line: LogLine;
  /** Whoever goes on after this has had this line and all before it; null: nothing says where it is, go on after the one before. */
  position: string | null;
  /** Between where it was to go on and this line some are no longer kept. */
  gap: boolean;
}

/** Where a reader begins. `after` is an `at` of before. */
export type LogStart = { after: string } | { sinceMs: number } | { beginning: true };
export type LogSelection = LogStart | { tail: number };

export interface LogReader {
  /** What there is now, oldest first. Throws an `EngineFault` where it comes from an engine. */
  read(from: LogSelection, untilMs: number | undefined, signal: AbortSignal): AsyncIterable<PositionedLine>;
  /** The same, and then what comes; of an engine until the run of the instance ends. The signal ends it quietly. */
  follow(from: LogStart, signal: AbortSignal): AsyncIterable<PositionedLine>;
}

/** Of the last lines no more are held than this, whatever is asked. */
const TAIL_BYTES = 1024 * 1024;

export const bytesOf = ({ text }: LogLine): number => Buffer.byteLength(text);

/** The last so many, and of them no more than is held at once. */
export async function lastLines(lines: AsyncIterable<PositionedLine>, count: number): Promise<PositionedLine[]> {
  const last: PositionedLine[] = [];
  let bytes = 0;
  let from = 0;
  for await (const placed of lines) {
    last.push(placed);
    bytes += bytesOf(placed.line);
    for (; last.length - from > count || (bytes > TAIL_BYTES && last.length - from > 1); from += 1) {
      const first = last[from];
      if (first) bytes -= bytesOf(first.line);
    }
    if (from > count) last.splice(0, from);
    if (from > count) from = 0;
  }
  return last.slice(from);
}
