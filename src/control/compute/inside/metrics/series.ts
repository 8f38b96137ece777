/** Metrics of an instance: in memory, about 60 KB, and encoded for the database. */
import { MINUTE_MS, HOUR_MS } from '../../../../domain/kernel/durations.ts';
import {
  foldIntoMinutes,
  startOfStep,
  sampleValues,
  MINUTE_RETENTION_MS,
  SAMPLE_RETENTION_MS,
  CLOCK_SLACK_MS,
  type UsageReading,
  type MetricsSpan,
  type MetricsValues,
} from '../../../../domain/compute/metrics.ts';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { parseMetricsMinutes, parseMetricsSamples } from '../../../../store/tables/json-schemas.ts';
import type { InstanceHour, MinutePart } from '../../../../store/tables/metrics.ts';

const IN_MEMORY_MS = SAMPLE_RETENTION_MS + 2 * CLOCK_SLACK_MS;

export interface Series<Reading extends UsageReading = UsageReading> {
  samples: MetricsSpan[];
  /** Complete minutes that no written hour has. */
  minutes: MetricsSpan[];
  openMs: number;
  last: { atMs: number; reading: Reading } | null;
}

export const emptySeries = <Reading extends UsageReading>(): Series<Reading> => ({
  samples: [],
  minutes: [],
  openMs: 0,
  last: null,
});

export function addSample<Reading extends UsageReading>(series: Series<Reading>, atMs: number, reading: Reading): void {
  while ((series.samples.at(-1)?.atMs ?? -Infinity) >= atMs) series.samples.pop();
  while ((series.minutes.at(-1)?.atMs ?? -Infinity) >= startOfStep(atMs, MINUTE_MS)) series.minutes.pop();
  series.openMs = Math.min(series.openMs, startOfStep(atMs, MINUTE_MS));
  // A copy has no spare capacity, which would double its size.
  const values = sampleValues(reading, series.last?.reading ?? null).slice();
  series.samples.push({ atMs, mean: values, max: values });
  series.last = { atMs, reading };
}

export function closeMinutes(series: Series, untilMs: number): void {
  series.minutes.push(...foldIntoMinutes(openSamples(series).filter(({ atMs }) => atMs < untilMs)));
  series.openMs = Math.max(series.openMs, untilMs);
}

const openSamples = ({ samples, openMs }: Series): MetricsSpan[] => samples.filter(({ atMs }) => atMs >= openMs);

export const wholeHours = ({ minutes }: Series, nowMs: number): [atMs: number, minutes: MetricsSpan[]][] =>
  [...Map.groupBy(minutes, ({ atMs }) => startOfStep(atMs, HOUR_MS))].filter(([atMs]) => atMs + HOUR_MS <= nowMs);

/** Returns false when nothing is left. */
export function forgetOld(series: Series, nowMs: number): boolean {
  const keep = (spans: MetricsSpan[], retentionMs: number): MetricsSpan[] =>
    (spans[0]?.atMs ?? nowMs) >= nowMs - retentionMs ? spans : spans.filter(({ atMs }) => atMs >= nowMs - retentionMs);
  series.samples = keep(series.samples, IN_MEMORY_MS);
  series.minutes = keep(series.minutes, MINUTE_RETENTION_MS + CLOCK_SLACK_MS);
  return series.samples.length + series.minutes.length > 0;
}

export const minutesInMemory = (series: Series): MetricsSpan[] => [
  ...series.minutes,
  ...foldIntoMinutes(openSamples(series)),
];

/** Encoded spans are deflated JSON. Synchronous, to keep simulations deterministic. */
type EncodedValues = (number | null)[];

export interface InstanceSamples {
  id: string;
  spans: readonly MetricsSpan[];
}

export const packSamples = (all: readonly InstanceSamples[]): Uint8Array =>
  pack(all.map(({ id, spans }) => [id, ...spans.map(({ atMs, mean }) => [atMs, ...mean])]));

export function unpackSamples({ atMs: minuteMs, part, body }: MinutePart): InstanceSamples[] {
  return parseMetricsSamples(inflate(body), `${minuteMs}/${part}`).map(([id, ...samples]) => ({
    id,
    spans: samples.map(([atMs, ...encoded]) => {
      const values = decodeValues(encoded);
      return { atMs, mean: values, max: values };
    }),
  }));
}

export const packMinutes = (spans: readonly MetricsSpan[]): Uint8Array =>
  pack(spans.map(({ atMs, mean, max }) => [atMs, mean, max]));

export const unpackMinutes = ({ instanceId, atMs: hourMs, body }: InstanceHour): MetricsSpan[] =>
  parseMetricsMinutes(inflate(body), `${instanceId}/${hourMs}`).map(([atMs, mean, max]) => ({
    atMs,
    mean: decodeValues(mean),
    max: decodeValues(max),
  }));

const decodeValues = (encoded: EncodedValues): MetricsValues => encoded.map((value) => value ?? Number.NaN);

const pack = (encoded: unknown): Uint8Array => deflateRawSync(JSON.stringify(encoded), { level: 1 });

const inflate = (body: Uint8Array): string => inflateRawSync(body).toString('utf8');
