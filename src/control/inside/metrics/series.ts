/**
 * What is known of instances' figures in memory: each sample of the last hour, and the minutes of hours that are not written yet. About
 * 60 KB an instance. Nothing here waits.
 */
import { HOUR_MS, MINUTE_MS, minutesOf, startOf, valuesOf, type Reading, type Span } from '../../../domain/metrics.ts';
import { MINUTES_KEPT_MS, SAMPLES_KEPT_MS, SLACK_MS } from '../../../domain/metrics-range.ts';

/** A sample more than can be asked for. */
const IN_MEMORY_MS = SAMPLES_KEPT_MS + 2 * SLACK_MS;

export interface Series<Told extends Reading = Reading> {
  /** In order. */
  samples: Span[];
  /** Whole minutes, in order, that no written hour has. */
  minutes: Span[];
  /** Samples from then on are in no minute yet. */
  openMs: number;
  /** The reading of the last sample, of this life of the server. */
  last: { atMs: number; reading: Told } | null;
}

export const emptySeries = <Told extends Reading>(): Series<Told> => ({
  samples: [],
  minutes: [],
  openMs: 0,
  last: null,
});

export function addSample<Told extends Reading>(series: Series<Told>, atMs: number, reading: Told): void {
  // What is of later was taken before the date was set back.
  while ((series.samples.at(-1)?.atMs ?? -Infinity) >= atMs) series.samples.pop();
  while ((series.minutes.at(-1)?.atMs ?? -Infinity) >= startOf(atMs, MINUTE_MS)) series.minutes.pop();
  series.openMs = Math.min(series.openMs, startOf(atMs, MINUTE_MS));
  // A copy has no room to grow in: that would be half of what is kept.
  const values = valuesOf(reading, series.last?.reading ?? null).slice();
  series.samples.push({ atMs, mean: values, max: values });
  series.last = { atMs, reading };
}

/** Samples from before that time become minutes, where they are none yet. */
export function closeMinutes(series: Series, untilMs: number): void {
  series.minutes.push(...minutesOf(openSamples(series).filter(({ atMs }) => atMs < untilMs)));
  series.openMs = Math.max(series.openMs, untilMs);
}

const openSamples = ({ samples, openMs }: Series): Span[] => samples.filter(({ atMs }) => atMs >= openMs);

/** Minutes of hours that are over at that time, by the hour. */
export const wholeHours = ({ minutes }: Series, nowMs: number): [atMs: number, minutes: Span[]][] =>
  [...Map.groupBy(minutes, ({ atMs }) => startOf(atMs, HOUR_MS))].filter(([atMs]) => atMs + HOUR_MS <= nowMs);

/** Drops what is old. False when nothing is left. */
export function forgetOld(series: Series, nowMs: number): boolean {
  const keep = (spans: Span[], keptMs: number): Span[] =>
    (spans[0]?.atMs ?? nowMs) >= nowMs - keptMs ? spans : spans.filter(({ atMs }) => atMs >= nowMs - keptMs);
  series.samples = keep(series.samples, IN_MEMORY_MS);
  series.minutes = keep(series.minutes, MINUTES_KEPT_MS + SLACK_MS);
  return series.samples.length + series.minutes.length > 0;
}

/** Its minutes in memory, the present one included as far as it has come. */
export const minutesInMemory = (series: Series): Span[] => [...series.minutes, ...minutesOf(openSamples(series))];
