/**
 * Log readers over a bounded log: no line is lost or doubled over interruptions, and gaps are
 * reported.
 */
import { expect, test } from 'vitest';
import { consoleOf, scriptLogOf } from '../../../src/control/compute/inside/logs/engine-logs.ts';
import type {
  LogSelection,
  LogReader,
  PositionedLine,
  LogStart,
} from '../../../src/control/compute/inside/logs/log-reader.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { countingRows } from '../../../src/async/rows-read.ts';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import type { Engine, LogLine, LogRange } from '../../../src/engines/contract.ts';

const id = instanceIdOf('11111111-1111-4111-8111-111111111111');

interface StoredLog {
  lines: LogLine[];
  /** Number of requests. */
  asked: number;
}

/** A log like Docker's: lines before `since` are absent, whatever their order. */
function engineWith(stored: StoredLog): Pick<Engine, 'logs' | 'followLogs'> {
  async function* within(range: LogRange, ends: () => boolean): AsyncGenerator<LogLine> {
    const { sinceMs = -Infinity, untilMs = Infinity, tail } = range;
    const from = tail === undefined ? 0 : Math.max(0, stored.lines.length - tail);
    for (let at = from; ; at += 1) {
      while (at >= stored.lines.length) {
        if (ends()) return;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      const line = stored.lines[at];
      if (line && (line.atMs === null || (line.atMs >= sinceMs && line.atMs < untilMs))) yield line;
    }
  }
  return {
    async logs(_id, _source, range) {
      stored.asked += 1;
      return within(range, () => true);
    },
    async followLogs(_id, _source, range, signal) {
      stored.asked += 1;
      return within(range, () => signal.aborted);
    },
  };
}

const line = (text: string, atMs: number | null): LogLine => ({ atMs, text, cut: false });
const quiet = (): AbortSignal => new AbortController().signal;
const textsOf = (lines: readonly PositionedLine[]): string[] => lines.map((one) => one.line.text);

/** Steps of 0 share a millisecond; steps back are like two concurrent writers'. */
function manyLines(count: number, random: () => number): LogLine[] {
  let newestMs = 1_000_000;
  return Array.from({ length: count }, (_, n) => {
    if (random() < 0.2) newestMs += Math.floor(random() * 400);
    return line(`line ${n}`, random() < 0.1 ? newestMs - Math.floor(random() * 300) : newestMs);
  });
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/** Reads some lines, breaks off, and resumes after the last, repeatedly. */
async function readInPieces(reader: LogReader, how: 'read' | 'follow', count: number, random: () => number) {
  const got: string[] = [];
  let from: LogStart = { beginning: true };
  for (let pieces = 0; got.length < count; pieces += 1) {
    expect(pieces, 'pieces').toBeLessThanOrEqual(count);
    const ending = new AbortController();
    const lines: AsyncIterable<PositionedLine> =
      how === 'read' ? reader.read(from, undefined, ending.signal) : reader.follow(from, ending.signal);
    let left = 1 + Math.floor(random() * 40);
    for await (const reported of lines) {
      const { line: one, position, gap }: PositionedLine = reported;
      expect(gap).toBe(false);
      got.push(one.text);
      if (position !== null) from = { after: position };
      left -= 1;
      if (left === 0 || got.length >= count) break;
    }
    ending.abort();
  }
  return got;
}

const kinds: [string, (engine: Pick<Engine, 'logs' | 'followLogs'>) => LogReader, boolean][] = [
  ['console', (engine) => consoleOf(engine, id, realTime), true],
  ['init', (engine) => scriptLogOf(engine, id, 'init'), false],
];
for (const [name, make, timed] of kinds) {
  for (const how of ['read', 'follow'] as const)
    test(`${name}, ${how}: yields each line once, in order, over interruptions at any line`, async () => {
      for (let seed = 1; seed <= 10; seed += 1) {
        const random = seeded(seed * 7_919);
        const lines = manyLines(300, random).map((one) => (timed ? one : { ...one, atMs: null }));
        const got = await readInPieces(make(engineWith({ lines, asked: 0 })), how, lines.length, random);
        expect(got, `seed ${seed}`).toEqual(lines.map(({ text }) => text));
      }
    });

  test(`${name}: reads the last lines, then exactly the following ones`, async () => {
    const lines = manyLines(120, seeded(5)).map((one) => (timed ? one : { ...one, atMs: null }));
    const stored: StoredLog = { lines: lines.slice(0, 100), asked: 0 };
    const reader = make(engineWith(stored));
    for (const tail of [1, 7, 100, 500]) {
      const last = await Array.fromAsync(reader.read({ tail }, undefined, quiet()));
      expect(textsOf(last)).toEqual(lines.slice(Math.max(0, 100 - tail), 100).map(({ text }) => text));
      stored.lines = lines;
      const from: LogSelection = { after: last.findLast(({ position }) => position !== null)?.position ?? '' };
      expect(textsOf(await Array.fromAsync(reader.read(from, undefined, quiet())))).toEqual(
        lines.slice(100).map(({ text }) => text),
      );
      stored.lines = lines.slice(0, 100);
    }
    stored.lines = [];
    expect(await Array.fromAsync(reader.read({ tail: 5 }, undefined, quiet()))).toEqual([]);
  });
}

test('console: reports dropped lines as a gap, and yields all later stored lines', async () => {
  const lines = Array.from({ length: 50 }, (_, n) => line(`line ${n}`, 1_000_000 + n * 400));
  const stored: StoredLog = { lines: [...lines], asked: 0 };
  const reader = consoleOf(engineWith(stored), id, realTime);
  const [first] = await Array.fromAsync(reader.read({ tail: 50 }, undefined, quiet()));
  stored.lines = lines.slice(20);
  for (const how of ['read', 'follow'] as const) {
    const ending = new AbortController();
    const from = { after: first?.position ?? '' };
    const got: PositionedLine[] = [];
    for await (const one of how === 'read' ? reader.read(from, undefined, quiet()) : reader.follow(from, ending.signal))
      if (got.push(one) === 30) break;
    ending.abort();
    expect(textsOf(got)).toEqual(lines.slice(20).map(({ text }) => text));
    expect(got.map(({ gap }) => gap)).toEqual([true, ...Array.from({ length: 29 }, () => false)]);
  }
});

test('console, follow: drops a lost position when nothing newer comes, and yields the stored lines', async () => {
  const stored: StoredLog = { lines: [line('later', 1_000_500)], asked: 0 };
  const callbacks: (() => void)[] = [];
  const time = {
    ...realTime,
    after: (_ms: number, fn: () => void) => {
      callbacks.push(fn);
      return () => {};
    },
  };
  const ending = new AbortController();
  const followed = consoleOf(engineWith(stored), id, time).follow({ after: '1000000.3' }, ending.signal);
  const lines = followed[Symbol.asyncIterator]();
  const coming = lines.next();
  while (stored.asked === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  for (const fn of callbacks) fn();
  expect((await coming).value).toMatchObject({ line: { text: 'later' }, gap: true });
  ending.abort();
  expect((await lines.next()).done).toBe(true);
});

test('console, follow: reports lines skipped by the engine as a gap, and none otherwise', async () => {
  let nowMs = 1_000_000;
  const time = { ...realTime, now: () => nowMs };
  for (const dropped of [0, 30]) {
    nowMs = 1_000_000;
    const lines = Array.from({ length: 60 }, (_, n) => line(`line ${n}`, 1_000_000 + n * 100));
    const stored: StoredLog = { lines: lines.slice(0, 10), asked: 0 };
    const engine = engineWith(stored);
    const ending = new AbortController();
    const follower = consoleOf(
      {
        ...engine,
        // Yields what was not dropped at the time.
        followLogs: async () => ReadableStream.from([...lines.slice(0, 10), ...lines.slice(Math.max(10, dropped))]),
      },
      id,
      time,
    ).follow({ beginning: true }, ending.signal);
    const got: PositionedLine[] = [];
    for await (const one of follower) {
      got.push(one);
      if (got.length !== 10) continue;
      // The reader was held up.
      nowMs += 10_000;
      stored.lines = lines.slice(dropped);
    }
    expect(got.filter(({ gap }) => gap).map((one) => one.line.text)).toEqual(dropped === 0 ? [] : ['line 30']);
    expect(stored.asked).toBe(1);
  }
});

test('holds at most a mebibyte of last lines, and at least one line', async () => {
  const lines = Array.from({ length: 200 }, (_, n) => line(`${n}${'x'.repeat(16_000)}`, 1_000_000 + n));
  const reader = consoleOf(engineWith({ lines, asked: 0 }), id, realTime);
  const last = await Array.fromAsync(reader.read({ tail: 150 }, undefined, quiet()));
  expect(last).toHaveLength(65);
  expect(last.at(-1)?.line.text).toMatch(/^199x/);
});

test('counts each line that it reads as a tenth of a row, also those that it leaves out', async () => {
  const stored = { lines: Array.from({ length: 40 }, (_, n) => line(`line ${n}`, 1_000_000 + n)), asked: 0 };
  const console_ = consoleOf(engineWith(stored), id, realTime);
  const init = scriptLogOf(engineWith(stored), id, 'init');
  const after = { after: '1000000.1' };
  const readers: [LogReader, LogSelection][] = [
    [console_, { beginning: true }],
    [console_, { tail: 40 }],
    [console_, after],
    [init, { beginning: true }],
    [init, { tail: 5 }],
  ];
  for (const [reader, from] of readers) {
    let rows = 0;
    const read = (): Promise<unknown> => Array.fromAsync(reader.read(from, undefined, quiet()));
    await countingRows((more) => (rows += more), read);
    expect(Math.round(rows), JSON.stringify(from)).toBe(4);
  }
});
