/**
 * CPU and GPU load of many instances by steps of a day. A day of an instance is 24 packed rows:
 * unpacked for a page of a table they would hold the thread for half a second, each minute again.
 * So steps that cannot change any more stay in memory, 1 KB an instance, and each later request
 * unpacks the last hours alone.
 */
import { makeBoundedMap } from '../../../../async/bounded-map.ts';
import { HOUR_MS } from '../../../../domain/kernel/durations.ts';
import {
  figureNames,
  foldIntoSteps,
  gpuFigureNames,
  startOfStep,
  type MetricsSpan,
} from '../../../../domain/compute/metrics.ts';
import type { Store } from '../../../../store/store.ts';
import { hoursSince } from '../../../../store/tables/metrics.ts';
import type { Sampler } from './sampler.ts';
import { unpackMinutes } from './series.ts';
import type { Time } from '../../../kernel/ports.ts';

export interface Load {
  cpuMilli: number | null;
  /** Mean over the GPUs. */
  gpuPercent: number | null;
}

export interface LoadSteps {
  fromMs: number;
  /** An hour has whole steps. */
  stepMs: number;
  count: number;
}

/** Two values a step, NaN without data: CPU in thousandths of a core, GPU in percent. */
interface Day {
  fromMs: number;
  /** Steps before this time are final. */
  finalUntilMs: number;
  values: Float32Array;
}

const MAX_INSTANCES = 10_000;
const AT_ONCE = 20;
/** The row of an hour is written within the next. */
const WRITTEN_AFTER_MS = HOUR_MS;

interface LoadDeps {
  store: Pick<Store, 'read'>;
  time: Pick<Time, 'now' | 'after'>;
  sampler: Pick<Sampler, 'memoryOf'>;
}

export function makeDayLoads({ store, time, sampler }: LoadDeps) {
  const days = makeBoundedMap<Day>({ maxEntries: MAX_INSTANCES });

  return async (ids: readonly string[], steps: LoadSteps): Promise<Map<string, Load[]>> => {
    const firstHourMs = startOfStep(steps.fromMs, HOUR_MS);
    const startOf = (id: string): number => Math.max(firstHourMs, days.peek(id)?.finalUntilMs ?? 0);
    const byStart = Map.groupBy(ids, startOf);
    const finalUntilMs = startOfStep(time.now(), HOUR_MS) - WRITTEN_AFTER_MS;
    const loads = new Map<string, Load[]>();
    for (const [startMs, group] of byStart)
      for (let at = 0; at < group.length; at += AT_ONCE) {
        const some = group.slice(at, at + AT_ONCE);
        const rows = Map.groupBy(await hoursSince(store.read, some, startMs), ({ instanceId }) => instanceId);
        for (const id of some) {
          const stored = (rows.get(id) ?? []).flatMap(unpackMinutes);
          const day = moved(days.get(id), steps);
          write(day, [...sampler.memoryOf(id), ...stored], { ...steps, startMs });
          day.finalUntilMs = finalUntilMs;
          days.set(id, day);
          loads.set(id, loadsOf(day));
        }
        // Other requests come in between.
        await new Promise<void>((resolve) => void time.after(0, resolve));
      }
    return loads;
  };
}

/** The day with its values at the steps of a later request. */
function moved(day: Day | undefined, { fromMs, stepMs, count }: LoadSteps): Day {
  const values = new Float32Array(2 * count).fill(Number.NaN);
  const by = day === undefined ? count : Math.round((fromMs - day.fromMs) / stepMs);
  if (day && by >= 0 && by < count) values.set(day.values.subarray(2 * by));
  return { fromMs, finalUntilMs: day?.finalUntilMs ?? 0, values };
}

/** Minutes of a stored hour come last: they are complete, those in memory may have lost samples. */
function write(day: Day, minutes: readonly MetricsSpan[], { startMs, stepMs, count }: LoadSteps & { startMs: number }) {
  const byTime = new Map(minutes.map((span) => [span.atMs, span]));
  const untilMs = day.fromMs + count * stepMs;
  const fromMs = Math.max(startMs, day.fromMs);
  const first = Math.round((fromMs - day.fromMs) / stepMs);
  const folded = foldIntoSteps([...byTime.values()], { fromMs, toMs: untilMs, stepMs });
  for (const [nth, span] of folded.entries())
    day.values.set(
      span ? [span.mean[CPU] ?? Number.NaN, gpuPercentOf(span)] : [Number.NaN, Number.NaN],
      2 * (first + nth),
    );
}

const CPU = figureNames.indexOf('cpuMilli');
const BUSY = gpuFigureNames.indexOf('busyPercent');

function gpuPercentOf({ mean }: MetricsSpan): number {
  const busy: number[] = [];
  for (let at = figureNames.length + BUSY; at < mean.length; at += gpuFigureNames.length) {
    const value = mean[at] ?? Number.NaN;
    if (!Number.isNaN(value)) busy.push(value);
  }
  return busy.length === 0 ? Number.NaN : busy.reduce((sum, value) => sum + value, 0) / busy.length;
}

const loadsOf = ({ values }: Day): Load[] =>
  Array.from({ length: values.length / 2 }, (_, nth) => ({
    cpuMilli: known(values[2 * nth]),
    gpuPercent: known(values[2 * nth + 1]),
  }));

const known = (value = Number.NaN): number | null => (Number.isNaN(value) ? null : Math.round(value * 10) / 10);
