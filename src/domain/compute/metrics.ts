/**
 * A reading has gauges (memory, processes) and counters since the start of the run (CPU time,
 * bytes). Two readings make a sample with rates; samples fold into minutes and steps, each with
 * mean and maximum. Unknown is NaN here and null outside, never 0.
 */
import { MINUTE_MS, HOUR_MS } from '../kernel/durations.ts';

/** Order of `MetricsValues`. Integers. */
export const figureNames = [
  'cpuMilli',
  'memoryBytes',
  'receivedBytesPerSecond',
  'sentBytesPerSecond',
  'readBytesPerSecond',
  'writtenBytesPerSecond',
  'processes',
] as const;
export type FigureName = (typeof figureNames)[number];

export const gpuFigureNames = ['busyPercent', 'memoryUsedBytes', 'powerMilliwatts', 'temperatureCelsius'] as const;
export type GpuFigureName = (typeof gpuFigureNames)[number];

type GpuReading = Readonly<Record<GpuFigureName, number | null>>;

export interface Counters {
  cpuTimeMs: number;
  receivedBytes: number | null;
  sentBytes: number | null;
  readBytes: number | null;
  writtenBytes: number | null;
}

export interface UsageReading extends Counters {
  atMs: number;
  startedAtMs: number;
  memoryBytes: number;
  processes: number | null;
  gpus: readonly GpuReading[] | null;
}

export type MetricsValues = readonly number[];

/** Starts at `atMs`. Mean and maximum of a single sample are equal. */
export interface MetricsSpan {
  atMs: number;
  mean: MetricsValues;
  max: MetricsValues;
}

export const SAMPLE_MS = 15_000;
/** A mean over a longer gap would hide what happened in it. */
export const MAX_RATE_MS = 3 * SAMPLE_MS;

export const startOfStep = (atMs: number, stepMs: number): number => Math.floor(atMs / stepMs) * stepMs;

export function sampleValues(now: UsageReading, before: UsageReading | null): MetricsValues {
  const rate = (name: keyof Counters, per: number): number => {
    const counted = now[name];
    const since = rateBase(now, before, name);
    if (counted === null || since === null || now.atMs <= since.atMs) return Number.NaN;
    // A part of the run restarted, such as its Docker: the increase is unknown.
    if (counted < since.counted) return Number.NaN;
    return Math.round(((counted - since.counted) * per) / (now.atMs - since.atMs));
  };
  const figures: Record<FigureName, number | null> = {
    cpuMilli: rate('cpuTimeMs', 1_000),
    memoryBytes: now.memoryBytes,
    receivedBytesPerSecond: rate('receivedBytes', 1_000),
    sentBytesPerSecond: rate('sentBytes', 1_000),
    readBytesPerSecond: rate('readBytes', 1_000),
    writtenBytesPerSecond: rate('writtenBytes', 1_000),
    processes: now.processes,
  };
  return [
    ...figureNames.map((name) => figures[name] ?? Number.NaN),
    ...(now.gpus ?? []).flatMap((gpu) => gpuFigureNames.map((name) => gpu[name] ?? Number.NaN)),
  ];
}

function rateBase(
  now: UsageReading,
  before: UsageReading | null,
  name: keyof Counters,
): { atMs: number; counted: number } | null {
  const isNear = (atMs: number): boolean => atMs > 0 && atMs <= now.atMs && now.atMs - atMs <= MAX_RATE_MS;
  if (before?.startedAtMs === now.startedAtMs && isNear(before.atMs)) {
    const counted = before[name];
    return counted === null ? null : { atMs: before.atMs, counted };
  }
  return isNear(now.startedAtMs) ? { atMs: now.startedAtMs, counted: 0 } : null;
}

/** NaN values don't count. */
export function foldSpans(atMs: number, spans: readonly MetricsSpan[]): MetricsSpan {
  const width = Math.max(0, ...spans.map(({ mean }) => mean.length));
  const mean: number[] = [];
  const max: number[] = [];
  for (let at = 0; at < width; at++) {
    let [sum, measured, largest] = [0, 0, Number.NaN];
    for (const span of spans) {
      const value = span.mean[at] ?? Number.NaN;
      const top = span.max[at] ?? Number.NaN;
      if (Number.isNaN(value)) continue;
      sum += value;
      measured++;
      if (!(largest >= top)) largest = top;
    }
    mean.push(measured === 0 ? Number.NaN : Math.round(sum / measured));
    max.push(largest);
  }
  return { atMs, mean, max };
}

export const foldIntoMinutes = (samples: readonly MetricsSpan[]): MetricsSpan[] =>
  [...Map.groupBy(samples, ({ atMs }) => startOfStep(atMs, MINUTE_MS))]
    .toSorted(([one], [other]) => one - other)
    .map(([atMs, within]) => foldSpans(atMs, within));

/** `toMs` is exclusive. */
export interface MetricsRange {
  fromMs: number;
  toMs: number;
  stepMs: number;
}

/** Returns one span per step; null: no data. */
export function foldIntoSteps(
  spans: readonly MetricsSpan[],
  { fromMs, toMs, stepMs }: MetricsRange,
): (MetricsSpan | null)[] {
  const within = Map.groupBy(spans, ({ atMs }) => startOfStep(atMs, stepMs));
  return Array.from({ length: Math.round((toMs - fromMs) / stepMs) }, (_, nth) => {
    const atMs = fromMs + nth * stepMs;
    const spansOfStep = within.get(atMs);
    return spansOfStep === undefined ? null : foldSpans(atMs, spansOfStep);
  });
}

export const SAMPLE_RETENTION_MS = 3_600_000;
export const MINUTE_RETENTION_MS = 24 * HOUR_MS;
/** Tolerates clock differences and the duration of a request. */
export const CLOCK_SLACK_MS = 60_000;

export interface MetricsRangeRequest {
  fromMs?: number | undefined;
  toMs?: number | undefined;
  stepMs?: number | undefined;
}

/** Whether samples answer the range; else minutes do. */
export const hasSampleResolution = ({ fromMs, stepMs }: MetricsRange, nowMs: number): boolean =>
  stepMs % MINUTE_MS !== 0 || hasSamples(fromMs, nowMs);

const hasSamples = (fromMs: number, nowMs: number): boolean => fromMs >= nowMs - SAMPLE_RETENTION_MS - CLOCK_SLACK_MS;

export function resolveMetricsRange(request: MetricsRangeRequest, nowMs: number): MetricsRange | string {
  if (request.toMs !== undefined && request.toMs > nowMs + CLOCK_SLACK_MS)
    return `field "toUnixMs" is ${request.toMs}: it must be at most ${nowMs}, the time now`;
  const toMs = Math.min(request.toMs ?? nowMs, nowMs);
  const fromMs = request.fromMs ?? toMs - HOUR_MS;
  if (fromMs >= toMs)
    return `field "fromUnixMs" is ${fromMs}: it must be before toUnixMs, ${toMs}; without fromUnixMs the range is one hour`;
  const oldestMs = nowMs - MINUTE_RETENTION_MS;
  if (fromMs < oldestMs - CLOCK_SLACK_MS)
    return `field "fromUnixMs" is ${fromMs}: it must be at least ${oldestMs}, because samples are stored for 24 hours`;
  const samples = hasSamples(fromMs, nowMs);
  const stepMs = request.stepMs ?? (samples ? SAMPLE_MS : MINUTE_MS);
  const finestMs = samples ? SAMPLE_MS : MINUTE_MS;
  if (stepMs % finestMs !== 0)
    return samples
      ? `field "stepSeconds" is ${stepMs / 1000}: it must be a multiple of 15, because a sample is taken every 15 seconds`
      : `field "stepSeconds" is ${stepMs / 1000}: it must be a multiple of 60 for samples older than an hour, which are stored by the minute; or send a fromUnixMs of at least ${nowMs - SAMPLE_RETENTION_MS}`;
  return { fromMs: startOfStep(fromMs, stepMs), toMs: startOfStep(toMs - 1, stepMs) + stepMs, stepMs };
}
