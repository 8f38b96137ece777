import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MINUTE_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { SAMPLE_MS, hasSampleResolution, resolveMetricsRange } from '../../../src/domain/compute/metrics.ts';

const NOW = 1_700_000_007_000;
const DAY_MS = 24 * HOUR_MS;

describe('a metrics range', () => {
  test('is the last hour in samples by default, and in minutes when it begins earlier', () => {
    expect(resolveMetricsRange({}, NOW)).toEqual({
      fromMs: 1_699_996_395_000 + 0,
      toMs: 1_700_000_010_000,
      stepMs: SAMPLE_MS,
    });
    const day = resolveMetricsRange({ fromMs: NOW - DAY_MS }, NOW);
    expect(day).toMatchObject({ stepMs: MINUTE_MS });
    if (typeof day === 'string') throw new Error(day);
    expect((day.toMs - day.fromMs) / day.stepMs).toBeLessThanOrEqual(1_441);
    expect(hasSampleResolution(day, NOW)).toBe(false);
  });

  test('tolerates a few seconds between the request and its evaluation', () => {
    expect(resolveMetricsRange({ fromMs: NOW - DAY_MS - 5_000 }, NOW)).toMatchObject({ stepMs: MINUTE_MS });
    expect(resolveMetricsRange({ fromMs: NOW - HOUR_MS - 5_000, stepMs: SAMPLE_MS }, NOW)).toMatchObject({
      stepMs: SAMPLE_MS,
    });
    expect(resolveMetricsRange({ toMs: NOW + 5_000 }, NOW)).toMatchObject({ toMs: 1_700_000_010_000 });
  });

  test.each([
    [{ fromMs: NOW, toMs: NOW - 1 }, /^field "fromUnixMs" is 1700000007000: it must be before toUnixMs, 1700000006999/],
    [{ fromMs: NOW + 10_000 }, /must be before toUnixMs/],
    [{ toMs: NOW + 2 * MINUTE_MS }, /^field "toUnixMs" is 1700000127000: it must be at most 1700000007000/],
    [{ fromMs: NOW - 2 * DAY_MS }, /: it must be at least 1699913607000, because samples are stored for 24 hours/],
    [
      { fromMs: NOW - DAY_MS, stepMs: SAMPLE_MS },
      /it must be a multiple of 60 .* or send a fromUnixMs of at least 1699996407000/,
    ],
    [{ stepMs: 20_000 }, /^field "stepSeconds" is 20: it must be a multiple of 15/],
  ])('is refused with the valid values: %j', (request, words) => {
    expect(resolveMetricsRange(request, NOW)).toMatch(words);
  });

  test('covers the requested time in whole steps, at most 1,442', () => {
    const request = fc.record(
      { agoMs: fc.nat(DAY_MS + 2 * HOUR_MS), lastsMs: fc.nat(DAY_MS), steps: fc.integer({ min: 1, max: 400 }) },
      { requiredKeys: ['agoMs'] },
    );
    fc.assert(
      fc.property(request, ({ agoMs, lastsMs, steps }) => {
        const fromMs = NOW - agoMs;
        const asked = {
          fromMs,
          toMs: lastsMs === undefined ? undefined : fromMs + lastsMs,
          stepMs: steps === undefined ? undefined : steps * SAMPLE_MS,
        };
        const range = resolveMetricsRange(asked, NOW);
        if (typeof range === 'string') return;
        expect(range.fromMs).toBeLessThanOrEqual(fromMs);
        expect(range.fromMs).toBeGreaterThan(fromMs - range.stepMs);
        expect(range.toMs).toBeGreaterThanOrEqual(Math.min(asked.toMs ?? NOW, NOW));
        for (const edge of [range.fromMs, range.toMs]) expect(edge % range.stepMs).toBe(0);
        expect((range.toMs - range.fromMs) / range.stepMs).toBeLessThanOrEqual(1_442);
      }),
    );
  });
});
