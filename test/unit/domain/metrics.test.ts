import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import {
  figureNames,
  foldSpans,
  gpuFigureNames,
  MAX_RATE_MS,
  foldIntoMinutes,
  SAMPLE_MS,
  startOfStep,
  foldIntoSteps,
  sampleValues,
  type FigureName,
  type UsageReading,
  type MetricsSpan,
  type MetricsValues,
} from '../../../src/domain/compute/metrics.ts';

const AT = 1_700_000_000_000;

const reading = (over: Partial<UsageReading> = {}): UsageReading => ({
  atMs: AT,
  startedAtMs: AT - 3_600_000,
  cpuTimeMs: 0,
  receivedBytes: 0,
  sentBytes: 0,
  readBytes: 0,
  writtenBytes: 0,
  memoryBytes: 0,
  processes: 1,
  gpus: null,
  ...over,
});

const reported = (values: MetricsValues, name: FigureName): number => values[figureNames.indexOf(name)] ?? Number.NaN;
const span = (atMs: number, ...values: number[]): MetricsSpan => ({ atMs, mean: values, max: values });

describe('a rate', () => {
  test('is the growth of its counter divided by the time between two readings', () => {
    const before = reading({ cpuTimeMs: 500, receivedBytes: 1_000, sentBytes: 10, readBytes: 4_096, writtenBytes: 1 });
    const now = reading({
      atMs: AT + 10_000,
      cpuTimeMs: 15_500,
      receivedBytes: 3_000,
      sentBytes: 20,
      readBytes: 4_096,
      writtenBytes: 50_001,
    });
    const values = sampleValues(now, before);
    expect(reported(values, 'cpuMilli')).toBe(1_500);
    expect(reported(values, 'receivedBytesPerSecond')).toBe(200);
    expect(reported(values, 'sentBytesPerSecond')).toBe(1);
    expect(reported(values, 'readBytesPerSecond')).toBe(0);
    expect(reported(values, 'writtenBytesPerSecond')).toBe(5_000);
  });

  test('counts from the start of a new run, whatever the previous run had counted', () => {
    const before = reading({ cpuTimeMs: 900, receivedBytes: 7 });
    const again = reading({ atMs: AT + 15_000, startedAtMs: AT + 5_000, cpuTimeMs: 2_000, receivedBytes: 40_000 });
    expect(reported(sampleValues(again, before), 'cpuMilli')).toBe(200);
    expect(reported(sampleValues(again, before), 'receivedBytesPerSecond')).toBe(4_000);
    expect(reported(sampleValues(again, null), 'cpuMilli'), 'first reading').toBe(200);
  });

  test('is unknown after a gap, for a first reading during a run, and without a counter', () => {
    const counted = { cpuTimeMs: 1_000_000, receivedBytes: 1_000_000 };
    const late = reading({ atMs: AT + MAX_RATE_MS + 1, ...counted });
    expect(reported(sampleValues(late, reading()), 'cpuMilli')).toBeNaN();
    expect(reported(sampleValues(late, null), 'cpuMilli')).toBeNaN();
    expect(reported(sampleValues(late, null), 'processes'), 'values other than rates are reported').toBe(1);
    const soon = { atMs: AT + 15_000 };
    expect(reported(sampleValues(reading({ ...soon, readBytes: null }), reading()), 'readBytesPerSecond')).toBeNaN();
    expect(reported(sampleValues(reading(soon), reading({ readBytes: null })), 'readBytesPerSecond')).toBeNaN();
  });

  test('is unknown when its counter decreased within a run', () => {
    const before = reading({ cpuTimeMs: 1_500_000 });
    const now = reading({ atMs: AT + 15_000, cpuTimeMs: 1_000_000 });
    expect(reported(sampleValues(now, before), 'cpuMilli')).toBeNaN();
    expect(reported(sampleValues(now, before), 'receivedBytesPerSecond'), 'the other rates are known').toBe(0);
  });

  test('is never negative, and rates multiplied by their times add up to the counted total', () => {
    const step = fc.record({
      ms: fc.integer({ min: 1, max: 60_000 }),
      grown: fc.nat(10_000_000),
      restart: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 30 }), fc.boolean(), (steps, restarts) => {
        let before = reading({ startedAtMs: AT - 1, atMs: AT });
        let [sum, counted] = [0, 0];
        for (const { ms, grown, restart } of steps) {
          const atMs = before.atMs + ms;
          const begins = restart && restarts;
          const now = reading({
            atMs,
            startedAtMs: begins ? atMs - Math.ceil(ms / 2) : before.startedAtMs,
            receivedBytes: (begins ? 0 : (before.receivedBytes ?? 0)) + grown,
          });
          const rate = reported(sampleValues(now, before), 'receivedBytesPerSecond');
          const sinceMs = begins ? Math.ceil(ms / 2) : ms;
          if (sinceMs > MAX_RATE_MS) expect(rate).toBeNaN();
          else {
            expect(rate).toBeGreaterThanOrEqual(0);
            sum += (rate * sinceMs) / 1000;
            counted += grown;
          }
          before = now;
        }
        // Rates are rounded to whole bytes per second.
        expect(Math.abs(sum - counted)).toBeLessThanOrEqual(steps.length * 30 + 1);
      }),
    );
  });
});

test("appends the figures of each GPU to the instance's, with NaN for unknown figures", () => {
  const gpu = { busyPercent: 90, memoryUsedBytes: 5, powerMilliwatts: null, temperatureCelsius: 60 };
  const values = sampleValues(reading({ gpus: [gpu, { ...gpu, busyPercent: 0 }] }), null);
  expect(values.slice(figureNames.length)).toEqual([90, 5, Number.NaN, 60, 0, 5, Number.NaN, 60]);
  expect(values).toHaveLength(figureNames.length + 2 * gpuFigureNames.length);
});

describe('folded samples', () => {
  test('have the mean and maximum of known values', () => {
    const spans = [span(1, 10, Number.NaN, 1), span(2, 20, Number.NaN), span(3, Number.NaN, Number.NaN)];
    expect(foldSpans(0, spans)).toEqual({ atMs: 0, mean: [15, Number.NaN, 1], max: [20, Number.NaN, 1] });
  });

  test('have the maximum of the maxima, not of the means', () => {
    const minutes = [
      { atMs: 0, mean: [10], max: [100] },
      { atMs: MINUTE_MS, mean: [20], max: [30] },
    ];
    expect(foldSpans(0, minutes)).toEqual({ atMs: 0, mean: [15], max: [100] });
  });

  test('become minutes in order', () => {
    const samples = [0, 15, 30, 45, 60, 200].map((s) => span(AT + s * 1_000, s));
    const first = startOfStep(AT, MINUTE_MS);
    const minutes = foldIntoMinutes(samples.toReversed());
    expect(minutes.map(({ atMs }) => (atMs - first) / MINUTE_MS)).toEqual([0, 1, 3]);
    expect(minutes.flatMap(({ max }) => max)).toEqual([...new Set(minutes.flatMap(({ max }) => max))]);
  });

  test('become steps: each sample counts in the step of its time only, and an empty step is null', () => {
    const values = fc.array(fc.integer({ min: 0, max: 1e12 }), { minLength: 2, maxLength: 2 });
    const samples = fc.uniqueArray(fc.tuple(fc.nat(400), values), { selector: ([nth]) => nth, maxLength: 60 });
    const range = fc.record({
      from: fc.nat(50),
      steps: fc.integer({ min: 1, max: 40 }),
      step: fc.constantFrom(1, 2, 4, 20),
    });
    fc.assert(
      fc.property(samples, range, (given, { from, steps, step }) => {
        const stepMs = step * SAMPLE_MS;
        const fromMs = startOfStep(AT, stepMs) + from * stepMs;
        const spans = given.map(([nth, reported]) => span(startOfStep(AT, SAMPLE_MS) + nth * SAMPLE_MS, ...reported));
        const found = foldIntoSteps(spans, { fromMs, toMs: fromMs + steps * stepMs, stepMs });
        expect(found).toHaveLength(steps);
        for (const [nth, one] of found.entries()) {
          const atMs = fromMs + nth * stepMs;
          const within = spans.filter((each) => each.atMs >= atMs && each.atMs < atMs + stepMs);
          expect(one === null).toBe(within.length === 0);
          if (one === null) continue;
          expect(one.atMs).toBe(atMs);
          for (const at of [0, 1]) {
            const all = within.map(({ mean }) => mean[at] ?? -1);
            expect(one.max[at]).toBe(Math.max(...all));
            expect(one.mean[at]).toBe(Math.round(all.reduce((sum, each) => sum + each, 0) / all.length));
          }
        }
      }),
    );
  });
});
