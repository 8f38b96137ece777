/** Time ranges of metrics queries, rounded to steps; at most 1,442 of them. */
import { HOUR_MS, MINUTE_MS, SAMPLE_MS, startOfStep, type MetricsRange } from './metrics.ts';

export const SAMPLE_RETENTION_MS = HOUR_MS;
export const MINUTE_RETENTION_MS = 24 * HOUR_MS;
/** Tolerates clock differences and the duration of a request. */
export const CLOCK_SLACK_MS = MINUTE_MS;

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
    return `field "toUnixMs" is ${request.toMs}: it must be at most ${nowMs}, which is now`;
  const toMs = Math.min(request.toMs ?? nowMs, nowMs);
  const fromMs = request.fromMs ?? toMs - HOUR_MS;
  if (fromMs >= toMs)
    return `field "fromUnixMs" is ${fromMs}: it must be before toUnixMs, which is ${toMs}; left out, it is an hour before that`;
  const oldestMs = nowMs - MINUTE_RETENTION_MS;
  if (fromMs < oldestMs - CLOCK_SLACK_MS)
    return `field "fromUnixMs" is ${fromMs}: it must be at least ${oldestMs}, as figures are kept for 24 hours`;
  const samples = hasSamples(fromMs, nowMs);
  const stepMs = request.stepMs ?? (samples ? SAMPLE_MS : MINUTE_MS);
  const finestMs = samples ? SAMPLE_MS : MINUTE_MS;
  if (stepMs % finestMs !== 0)
    return samples
      ? `field "stepSeconds" is ${stepMs / 1000}: it must be a multiple of 15, as a sample is taken every 15 seconds`
      : `field "stepSeconds" is ${stepMs / 1000}: it must be a multiple of 60 from so long ago, as what is older than an hour is kept by the minute; or fromUnixMs must be at least ${nowMs - SAMPLE_RETENTION_MS}`;
  return { fromMs: startOfStep(fromMs, stepMs), toMs: startOfStep(toMs - 1, stepMs) + stepMs, stepMs };
}
