/** Logs that the engine stores: console, init script, start command and notebook server. */
import {
  DISORDER_MS,
  makeLogPositions,
  makePositionSearch,
  formatLogPosition,
  parseLogPosition,
  type LogPosition,
  type PositionMatch,
} from '../../../../domain/compute/log-position.ts';
import { noteSmallRows } from '../../../../async/rows-read.ts';
import type { InstanceId } from '../../../../domain/kernel/ids.ts';
import type { Engine, EngineLogSource, LogLine } from '../../../../engines/contract.ts';
import { lastLines, type LogReader, type PositionedLine, type LogStart } from './log-reader.ts';
import type { Time } from '../../../kernel/ports.ts';

/** Followed logs send stored lines at once: a line that takes longer is gone. */
const SEEK_MS = 5_000;
const LATE_MS = 1_000;

interface Range {
  sinceMs?: number;
  tail?: number;
}
type Open = (range: Range, signal: AbortSignal) => Promise<AsyncIterable<LogLine>>;

/** If the engine has dropped the line of a position, the reader reports a gap. */
export function consoleOf(engine: Pick<Engine, 'logs' | 'followLogs'>, id: InstanceId, time: Time): LogReader {
  const until =
    (untilMs: number | undefined): Open =>
    (range, signal) =>
      engine.logs(id, 'console', { ...range, untilMs }, signal);
  const following: Open = (range, signal) => engine.followLogs(id, 'console', range, signal);

  return {
    async *read(from, untilMs, signal) {
      const open = until(untilMs);
      if ('tail' in from) yield* await last(open, from.tail, signal);
      else if ('after' in from) yield* resume(open, positionOf(from.after), signal);
      else yield* positioned(await open(rangeOf(from), signal));
    },
    async *follow(from, signal) {
      const lines =
        'after' in from
          ? seekAndFollow(following, positionOf(from.after), time, signal)
          : positioned(await following(rangeOf(from), signal));
      yield* withGaps(lines, { open: until(undefined), time, signal });
    },
  };
}

const rangeOf = (from: LogStart): Range => ('sinceMs' in from ? { sinceMs: from.sinceMs } : {});

/** Reads times first: a line's position depends on earlier lines of the same millisecond. */
async function last(open: Open, count: number, signal: AbortSignal): Promise<PositionedLine[]> {
  const times = await Array.fromAsync(await open({ tail: count }, signal), ({ atMs }) => atMs ?? 0);
  if (times.length === 0) return [];
  const sinceMs = times.reduce((least, atMs) => Math.min(least, atMs));
  return lastLines(positioned(await open({ sinceMs }, signal)), count);
}

function positionOf(text: string): LogPosition {
  const target = parseLogPosition(text);
  if (target === null) throw new Error(`${text} is not a position in a console`);
  return target;
}

const positionedLine = (line: LogLine, target: LogPosition | null): PositionedLine => ({
  line,
  position: target === null ? null : formatLogPosition(target),
  gap: false,
});

async function* positioned(lines: AsyncIterable<LogLine>): AsyncGenerator<PositionedLine> {
  const positionFor = makeLogPositions();
  for await (const line of lines) {
    noteSmallRows(1);
    yield positionedLine(line, positionFor(line.atMs));
  }
}

async function* seekAndFollow(
  open: Open,
  target: LogPosition,
  time: Time,
  signal: AbortSignal,
): AsyncGenerator<PositionedLine> {
  const seekTimeout = new AbortController();
  const cancelTimeout = time.after(SEEK_MS, () => seekTimeout.abort());
  try {
    yield* resume(open, target, signal, {
      signal: AbortSignal.any([signal, seekTimeout.signal]),
      onFound: cancelTimeout,
    });
  } finally {
    cancelTimeout();
  }
}

/** Engines skip rotated lines silently for slow readers: a late line's predecessor is checked. */
async function* withGaps(
  lines: AsyncIterable<PositionedLine>,
  { open, time, signal }: { open: Open; time: Time; signal: AbortSignal },
): AsyncGenerator<PositionedLine> {
  let safeUntilMs = time.now();
  let before: string | null = null;
  for await (const one of lines) {
    let { gap } = one;
    const { atMs } = one.line;
    if (before !== null && atMs !== null && atMs > safeUntilMs && time.now() - atMs > LATE_MS) {
      safeUntilMs = time.now();
      gap ||= !(await isStored(open, positionOf(before), signal));
    }
    before = one.position ?? before;
    yield { ...one, gap };
  }
}

async function isStored(open: Open, target: LogPosition, signal: AbortSignal): Promise<boolean> {
  const seek = makePositionSearch(target);
  const sinceMs = Math.max(0, target.atMs - DISORDER_MS);
  for await (const { position } of positioned(await open({ sinceMs }, signal))) {
    const match = seek(position === null ? null : positionOf(position));
    if (match !== 'before') return match === 'at';
  }
  return false;
}

/** An abort of `seeking.signal` alone means that the line was not found. */
async function* resume(
  open: Open,
  target: LogPosition,
  signal: AbortSignal,
  seeking: { signal: AbortSignal; onFound: () => void } = { signal, onFound: () => {} },
): AsyncGenerator<PositionedLine> {
  const [seek, positionFor] = [makePositionSearch(target), makeLogPositions()];
  let match: PositionMatch = 'before';
  for await (const line of await open({ sinceMs: Math.max(0, target.atMs - DISORDER_MS) }, seeking.signal)) {
    noteSmallRows(1);
    const at = positionFor(line.atMs);
    match = seek(at);
    if (match === 'lost') break;
    if (match === 'at') seeking.onFound();
    if (match === 'after') yield positionedLine(line, at);
  }
  if (match === 'at' || match === 'after' || signal.aborted) return;
  let gap = true;
  for await (const one of positioned(await open({ sinceMs: target.atMs + 1 }, signal))) {
    yield { ...one, gap };
    gap = false;
  }
}

export function scriptLogOf(
  engine: Pick<Engine, 'logs' | 'followLogs'>,
  id: InstanceId,
  source: Exclude<EngineLogSource, 'console'>,
): LogReader {
  const now = async (signal: AbortSignal): Promise<AsyncIterable<PositionedLine>> =>
    numbered(await engine.logs(id, source, {}, signal));

  return {
    async *read(from, _untilMs, signal) {
      if ('tail' in from) yield* await lastLines(await now(signal), from.tail);
      else yield* behind(await now(signal), skippedBy(from));
    },
    async *follow(from, signal) {
      yield* behind(numbered(await engine.followLogs(id, source, {}, signal)), skippedBy(from));
    },
  };
}

const skippedBy = (from: LogStart): number => ('after' in from ? Number(from.after) : 0);

async function* numbered(lines: AsyncIterable<LogLine>): AsyncGenerator<PositionedLine> {
  let number = 0;
  for await (const line of lines) {
    number += 1;
    noteSmallRows(1);
    yield { line, position: String(number), gap: false };
  }
}

async function* behind(lines: AsyncIterable<PositionedLine>, skipped: number): AsyncGenerator<PositionedLine> {
  let number = 0;
  for await (const line of lines) {
    number += 1;
    if (number > skipped) yield line;
  }
}
