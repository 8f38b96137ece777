import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  DISORDER_MS,
  makeLogPositions,
  makePositionSearch,
  formatLogPosition,
  parseLogPosition,
  type LogPosition,
} from '../../../src/domain/compute/log-position.ts';

/** Line times of a log: mostly ascending, many in one millisecond, sometimes slightly back. */
const logs = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constant(0) },
      { weight: 3, arbitrary: fc.integer({ min: 1, max: 700 }) },
      fc.integer({ min: -300, max: -1 }),
    ),
    { minLength: 1, maxLength: 60 },
  )
  .map((steps) => {
    let newestMs = 10_000;
    return steps.map((step) => {
      if (step > 0) newestMs += step;
      return step < 0 ? newestMs + step : newestMs;
    });
  });

const positionsOf = (times: readonly number[]): (LogPosition | null)[] => {
  const nextPosition = makeLogPositions();
  return times.map((atMs) => nextPosition(atMs));
};

/** Lines that a reader gets after line `index`, from a log that lost its first `lost` lines. */
function goneOn(times: readonly number[], index: number, lost = 0): { after: number[]; lost: boolean } {
  const position = positionsOf(times)[index] ?? expect.fail('the line has no position');
  const retained = times.map((atMs, at) => ({ atMs, at })).slice(lost);
  const range = retained.filter(({ atMs }) => atMs >= position.atMs - DISORDER_MS);
  const [seek, nextPosition] = [makePositionSearch(position), makeLogPositions()];
  const after: number[] = [];
  for (const { atMs, at } of range) {
    const is = seek(nextPosition(atMs));
    if (is === 'lost') return { after, lost: true };
    if (is === 'after') after.push(at);
  }
  return { after, lost: false };
}

test('a reader that resumes after any line gets each later line once, and no earlier line', () => {
  fc.assert(
    fc.property(logs, fc.nat(), (times, pick) => {
      const index = pick % times.length;
      const later = times.map((_, at) => at).slice(index + 1);
      expect(goneOn(times, index)).toEqual({ after: later, lost: false });
    }),
  );
});

test('reports a dropped line as lost once later lines exist, and mistakes no other line for it', () => {
  const times = [5_000, 5_000, 5_001, 6_500, 9_000];
  expect(goneOn(times, 1, 3)).toEqual({ after: [], lost: true });
  expect(goneOn(times, 2, 3)).toEqual({ after: [], lost: true });
  // No line is late enough to have been written before.
  expect(goneOn([5_000, 5_500], 0, 1)).toEqual({ after: [], lost: false });
});

test('gives no position to a line much older than the newest', () => {
  const nextPosition = makeLogPositions();
  expect([
    nextPosition(9_000),
    nextPosition(8_000),
    nextPosition(7_999),
    nextPosition(null),
    nextPosition(9_000),
  ]).toEqual([{ atMs: 9_000, nth: 1 }, { atMs: 8_000, nth: 1 }, null, null, { atMs: 9_000, nth: 2 }]);
});

test('formats and parses a position, and parses invalid text as null', () => {
  const position = { atMs: 1_780_000_000_123, nth: 17 };
  expect(parseLogPosition(formatLogPosition(position))).toEqual(position);
  for (const text of ['', '1', '1.', '1.0', '.1', '1.1.1', '-1.1', '1.01', '1e3.1', '9'.repeat(16) + '.1', ' 1.1'])
    expect(parseLogPosition(text), text).toBe(null);
});
