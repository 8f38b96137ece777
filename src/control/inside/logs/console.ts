/** The console log. If the engine has dropped the line of a position, the reader reports a gap. */
import {
  DISORDER_MS,
  makeLogPositions,
  makePositionSearch,
  formatLogPosition,
  parseLogPosition,
  type LogPosition,
  type PositionMatch,
} from '../../../domain/log-position.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import type { Engine, LogLine } from '../../../engines/contract.ts';
import type { Time } from '../../base/time.ts';
import { lastLines, type LogReader, type PositionedLine, type LogStart } from './log-reader.ts';

/** Followed logs send stored lines at once: a line that takes longer is gone. */
const SEEK_MS = 5_000;
/** Age at which a line counts as delivered late. */
const LATE_MS = 1_000;

interface Range {
  sinceMs?: number;
  tail?: number;
}
type Open = (range: Range, signal: AbortSignal) => Promise<AsyncIterable<LogLine>>;

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
      else if ('after' in from) yield* goOn(open, placeOf(from.after), signal);
      else yield* placed(await open(rangeOf(from), signal));
    },
    async *follow(from, signal) {
      const lines =
        'after' in from
          ? seekAndFollow(following, placeOf(from.after), time, signal)
          : placed(await following(rangeOf(from), signal));
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
  return lastLines(placed(await open({ sinceMs }, signal)), count);
}

function placeOf(text: string): LogPosition {
  const place = parseLogPosition(text);
  if (place === null) throw new Error(`${text} is no place in a console`);
  return place;
}

const told = (line: LogLine, place: LogPosition | null): PositionedLine => ({
  line,
  position: place === null ? null : formatLogPosition(place),
  gap: false,
});

async function* placed(lines: AsyncIterable<LogLine>): AsyncGenerator<PositionedLine> {
  const placing = makeLogPositions();
  for await (const line of lines) yield told(line, placing(line.atMs));
}

async function* seekAndFollow(
  open: Open,
  place: LogPosition,
  time: Time,
  signal: AbortSignal,
): AsyncGenerator<PositionedLine> {
  const inVain = new AbortController();
  const callOff = time.after(SEEK_MS, () => inVain.abort());
  try {
    yield* goOn(open, place, signal, { signal: AbortSignal.any([signal, inVain.signal]), found: callOff });
  } finally {
    callOff();
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
      gap ||= !(await isKept(open, placeOf(before), signal));
    }
    before = one.position ?? before;
    yield { ...one, gap };
  }
}

async function isKept(open: Open, place: LogPosition, signal: AbortSignal): Promise<boolean> {
  const seek = makePositionSearch(place);
  const sinceMs = Math.max(0, place.atMs - DISORDER_MS);
  for await (const { position } of placed(await open({ sinceMs }, signal))) {
    const is = seek(position === null ? null : placeOf(position));
    if (is !== 'before') return is === 'at';
  }
  return false;
}

/** An abort of `seeking.signal` alone means that the line was not found. */
async function* goOn(
  open: Open,
  place: LogPosition,
  signal: AbortSignal,
  seeking: { signal: AbortSignal; found: () => void } = { signal, found: () => {} },
): AsyncGenerator<PositionedLine> {
  const [seek, placing] = [makePositionSearch(place), makeLogPositions()];
  let is: PositionMatch = 'before';
  for await (const line of await open({ sinceMs: Math.max(0, place.atMs - DISORDER_MS) }, seeking.signal)) {
    const at = placing(line.atMs);
    is = seek(at);
    if (is === 'lost') break;
    if (is === 'at') seeking.found();
    if (is === 'after') yield told(line, at);
  }
  if (is === 'at' || is === 'after' || signal.aborted) return;
  let gap = true;
  for await (const one of placed(await open({ sinceMs: place.atMs + 1 }, signal))) {
    yield { ...one, gap };
    gap = false;
  }
}
