import { expect, test } from 'vitest';
import { makeScheduler, type Task } from '../../../src/control/kernel/scheduler.ts';
import { realTime } from '../../../src/control/kernel/time.ts';

/** `tick` fires every interval once, ten seconds after the last. */
function fixture() {
  const ticks = new Set<() => void>();
  let elapsedMs = 0;
  let isHeld = true;
  const warnings: string[] = [];
  const stopping = new AbortController();
  const log = { debug() {}, info() {}, error() {}, warn: (_: object, text: string) => void warnings.push(text) };
  const time = {
    ...realTime,
    now: () => 1_000,
    elapsed: () => elapsedMs,
    every: (_: number, fn: () => void) => {
      ticks.add(fn);
      return () => void ticks.delete(fn);
    },
  };
  const tick = (): void => {
    elapsedMs += 10_000;
    for (const fire of ticks) fire();
  };
  const scheduler = makeScheduler({
    time,
    log,
    stopping: stopping.signal,
    hold: { isHeld: () => isHeld, onChange: () => {} },
  });
  const setHeld = (value: boolean): void => void (isHeld = value);
  return { scheduler, setHeld, stopping, warnings, ticks, tick };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const task = (run: () => Promise<void>): Task => ({ name: 'probe', intervalMs: 10_000, run });

test('records runs, failures and the error of the last run', async () => {
  const { scheduler, warnings, tick } = fixture();
  let fails = true;
  scheduler.start([
    task(async () => {
      if (fails) throw new Error('the engine is away');
    }),
  ]);
  const before = { name: 'probe', intervalMs: 10_000, running: false, runs: 0, failures: 0 };
  expect(scheduler.statuses()).toEqual([{ ...before, lastStartedAt: null, lastDurationMs: null, lastError: null }]);
  tick();
  await settled();
  const failed = { ...before, runs: 1, failures: 1, lastStartedAt: 1_000, lastDurationMs: 0 };
  expect(scheduler.statuses()).toEqual([{ ...failed, lastError: 'the engine is away' }]);
  expect(warnings).toEqual(['a background task failed; Berth retries it']);
  fails = false;
  tick();
  await settled();
  expect(scheduler.statuses()).toEqual([{ ...failed, runs: 2, lastError: null }]);
});

test('pauses a task longer after each failure in a row, at most 30 s, unless it is requested', async () => {
  const { scheduler, tick } = fixture();
  let fails = true;
  let runs = 0;
  scheduler.start([
    task(async () => {
      runs += 1;
      if (fails) throw new Error('the engine is away');
    }),
  ]);
  const ranAt: number[] = [];
  const tickMany = async (from: number, until: number): Promise<void> => {
    for (let n = from; n <= until; n += 1) {
      const before = runs;
      tick();
      await settled();
      if (runs > before) ranAt.push(n);
    }
  };
  await tickMany(1, 12);
  expect(ranAt).toEqual([1, 2, 4, 7, 10]);
  fails = false;
  scheduler.runSoon('probe');
  await settled();
  await tickMany(13, 15);
  expect(ranAt).toEqual([1, 2, 4, 7, 10, 13, 14, 15]);
});

test('runs no task while the hold of the database is lost', async () => {
  const { scheduler, setHeld, tick } = fixture();
  let runs = 0;
  scheduler.start([task(async () => void (runs += 1))]);
  setHeld(false);
  tick();
  scheduler.runSoon('probe');
  expect(runs).toBe(0);
  setHeld(true);
  tick();
  await settled();
  expect(runs).toBeGreaterThan(0);
});

test('runs a task once at a time, and once more when it is requested meanwhile', async () => {
  const { scheduler, tick } = fixture();
  const ends: (() => void)[] = [];
  scheduler.start([task(() => new Promise((resolve) => ends.push(resolve)))]);
  tick();
  tick();
  scheduler.runSoon('probe');
  scheduler.runSoon('probe');
  expect([ends.length, scheduler.statuses()[0]?.running]).toEqual([1, true]);
  ends[0]?.();
  await settled();
  expect(ends).toHaveLength(2);
  ends[1]?.();
  await settled();
  expect(scheduler.statuses()).toMatchObject([{ runs: 2, running: false }]);
});

test('begins an overlapping task while a run is under way, and a requested run after all of them', async () => {
  const { scheduler, tick } = fixture();
  const ends: (() => void)[] = [];
  scheduler.start([{ ...task(() => new Promise((resolve) => ends.push(resolve))), overlaps: true }]);
  tick();
  tick();
  expect(ends).toHaveLength(2);
  scheduler.runSoon('probe');
  expect(ends).toHaveLength(3);
  ends[1]?.();
  ends[2]?.();
  await settled();
  expect([ends.length, scheduler.statuses()[0]?.running]).toEqual([3, true]);
  ends[0]?.();
  await settled();
  expect(ends).toHaveLength(4);
  ends[3]?.();
  await settled();
  expect(scheduler.statuses()).toMatchObject([{ runs: 4, running: false }]);
});

test('stops when no run is under way, and starts none afterwards', async () => {
  const { scheduler, stopping, ticks, tick } = fixture();
  const ends: (() => void)[] = [];
  scheduler.start([task(() => new Promise((resolve) => ends.push(resolve)))]);
  tick();
  stopping.abort();
  const stopped = scheduler.stop();
  expect(ticks.size).toBe(0);
  scheduler.runSoon('probe');
  ends[0]?.();
  await stopped;
  await settled();
  expect(ends).toHaveLength(1);
});
