/**
 * # The sampler
 *
 * Reads usage from each region's engine every 15 seconds. Samples stay in memory for an hour. Each
 * minute the samples of all instances are written in a few rows, for the next start: a crash loses
 * one minute. Each hour an instance's minutes are written in one row and leave memory. A thousand
 * instances write about 0.1 MB a minute.
 *
 * The write of a minute adds GPU time to hours of accounts: terminated instances count, too.
 */
import { releasedAmong, runningIds } from '../../../../store/tables/instance-queries.ts';
import { DAY_MS, MINUTE_MS, HOUR_MS } from '../../../../domain/kernel/durations.ts';
import { SAMPLE_MS, startOfStep, type MetricsSpan, MINUTE_RETENTION_MS } from '../../../../domain/compute/metrics.ts';
import { EngineFault } from '../../../../domain/regions/engine-fault.ts';
import { instanceId } from '../../../../domain/kernel/ids.ts';
import type { Usage } from '../../../../engines/contract.ts';
import { addGpuUse, deleteGpuUseBefore } from '../../../../store/tables/gpu-use.ts';
import type { Store } from '../../../../store/store.ts';
import {
  deleteMetricsBefore,
  hoursSince,
  minutesBetween,
  writeHours,
  writeMinute,
  type InstanceHour,
} from '../../../../store/tables/metrics.ts';
import { gpuTimesOf } from './gpu-times.ts';
import {
  addSample,
  closeMinutes,
  emptySeries,
  forgetOld,
  minutesInMemory,
  packMinutes,
  packSamples,
  unpackMinutes,
  unpackSamples,
  wholeHours,
  type InstanceSamples,
  type Series,
} from './series.ts';
import { deadlineWithin, type TaskDeps, type RegionDrivers } from '../../../kernel/ports.ts';

const SAMPLE_DEADLINE_MS = 12_000;
const PACKED_AT_ONCE = 200;
const HOURS_AT_ONCE = 25;
const READ_AT_ONCE_MS = 10 * MINUTE_MS;
/** 13 months: a year can be compared with the year before. */
const GPU_USE_RETENTION_MS = 396 * DAY_MS;
/** A start rebuilds the current hour from these rows. */
const MINUTE_ROW_RETENTION_MS = 2 * HOUR_MS;

export interface Sampler {
  tick(): Promise<void>;
  latestOf(id: string): { atMs: number; usage: Usage; span: MetricsSpan } | null;
  /** Instances whose last sample lacks a GPU. */
  lackingGpu(): string[];
  /** Instances with more killed processes since the last call. */
  takeKilled(): string[];
  samplesOf(id: string): readonly MetricsSpan[];
  minutesOf(id: string, fromMs: number): Promise<MetricsSpan[]>;
  /** Minutes that no stored hour has. */
  memoryOf(id: string): readonly MetricsSpan[];
}

async function writeSamples(store: Store, atMs: number, all: readonly InstanceSamples[]): Promise<void> {
  for (let part = 0; part * PACKED_AT_ONCE < all.length; part++) {
    const some = all.slice(part * PACKED_AT_ONCE, (part + 1) * PACKED_AT_ONCE);
    const body = packSamples(some);
    const gpuTimes = await gpuTimesOf(store.read, some);
    await store.write(async (tx) => {
      if (await writeMinute(tx, { atMs, part, body })) await addGpuUse(tx, startOfStep(atMs, HOUR_MS), gpuTimes);
    });
  }
}

const lacksGpu = ({ last }: Series<Usage>): boolean => last?.reading.gpus?.some(({ isTaken }) => isTaken) === true;

const hoursOf = (id: string, series: Series<Usage>, nowMs: number) =>
  wholeHours(series, nowMs).map(([atMs, minutes]) => ({ id, series, atMs, minutes }));

const hasMoreKills = (before: Usage | undefined, { startedAtMs, memoryKills = 0 }: Usage): boolean =>
  memoryKills > (before?.startedAtMs === startedAtMs ? (before.memoryKills ?? 0) : 0);

function takeAll<Item>(items: Set<Item>): Item[] {
  const taken = [...items];
  items.clear();
  return taken;
}

/** Minutes of a written hour are complete; those in memory may have lost samples. */
function mergeMinutes(inMemory: readonly MetricsSpan[], written: readonly MetricsSpan[]): MetricsSpan[] {
  const byTime = new Map([...inMemory, ...written].map((span) => [span.atMs, span]));
  return [...byTime.values()].toSorted((one, other) => one.atMs - other.atMs);
}

export function makeSampler(deps: TaskDeps): Sampler {
  const { store, regions, time, log, stopping } = deps;
  const seriesById = new Map<string, Series<Usage>>();
  const killed = new Set<string>();
  let restored = false;
  let sampledMs = -Infinity;
  let minuteMs = Number.NaN;

  const seriesOf = (id: string): Series<Usage> => {
    const series = seriesById.get(id) ?? emptySeries<Usage>();
    seriesById.set(id, series);
    return series;
  };

  async function restore(): Promise<void> {
    const nowMs = time.now();
    seriesById.clear();
    for (let fromMs = nowMs - MINUTE_ROW_RETENTION_MS; fromMs < nowMs; fromMs += READ_AT_ONCE_MS) {
      const parts = await minutesBetween(store.read, fromMs, Math.min(nowMs, fromMs + READ_AT_ONCE_MS));
      for (const part of parts)
        for (const { id, spans } of unpackSamples(part)) {
          const series = seriesOf(id);
          series.samples.push(...spans);
          closeMinutes(series, part.atMs + MINUTE_MS);
        }
    }
    for (const [id, series] of seriesById) if (!forgetOld(series, nowMs)) seriesById.delete(id);
    restored = true;
  }

  async function sampleRegion({ regionId, engine, health }: RegionDrivers, atMs: number): Promise<void> {
    if (!health.answers) return;
    const ids = (await runningIds(store.read, regionId)).map(instanceId);
    if (ids.length === 0) return;
    try {
      const options = { countersOnly: true, sampling: true };
      const usages = await engine.usage(ids, deadlineWithin(deps, SAMPLE_DEADLINE_MS), options);
      if (stopping.aborted) return;
      for (const [id, usage] of usages) {
        if (usage.startedAtMs === 0) continue;
        const series = seriesOf(id);
        if (hasMoreKills(series.last?.reading, usage)) killed.add(id);
        addSample(series, atMs, usage);
      }
    } catch (error) {
      if (stopping.aborted) return;
      if (!(error instanceof EngineFault)) throw error;
      log.info({ regionId, err: error }, 'could not read the usage of instances; Berth retries');
    }
  }

  /** Unwritten hours are retried with the next minute; samples are not. */
  async function endMinute(atMs: number, nowMs: number): Promise<void> {
    const all: InstanceSamples[] = [];
    for (const [id, series] of seriesById) {
      closeMinutes(series, atMs + MINUTE_MS);
      const spans = series.samples.filter((sample) => startOfStep(sample.atMs, MINUTE_MS) === atMs);
      if (spans.length > 0) all.push({ id, spans });
    }
    await writeSamples(store, atMs, all);
    await endHours(nowMs);
    await forget(nowMs);
  }

  async function endHours(nowMs: number): Promise<void> {
    const ended = [...seriesById].flatMap(([id, series]) => hoursOf(id, series, nowMs));
    for (let at = 0; at < ended.length; at += HOURS_AT_ONCE) {
      const some = ended.slice(at, at + HOURS_AT_ONCE);
      const hours = some.map(({ id, atMs, minutes }): InstanceHour => ({
        instanceId: id,
        atMs,
        body: packMinutes(minutes),
      }));
      await store.write((tx) => writeHours(tx, hours));
      for (const { series, minutes } of some)
        series.minutes = series.minutes.filter((minute) => !minutes.includes(minute));
    }
  }

  async function forget(nowMs: number): Promise<void> {
    const gone = await releasedAmong(store.read, [...seriesById.keys()]);
    for (const id of gone) seriesById.delete(id);
    for (const [id, series] of seriesById) if (!forgetOld(series, nowMs)) seriesById.delete(id);
    const before = { minutesMs: nowMs - MINUTE_ROW_RETENTION_MS, hoursMs: nowMs - MINUTE_RETENTION_MS - HOUR_MS };
    await store.write(async (tx) => {
      await deleteMetricsBefore(tx, before);
      await deleteGpuUseBefore(tx, nowMs - GPU_USE_RETENTION_MS);
    });
  }

  return {
    async tick() {
      if (!restored) await restore();
      const nowMs = time.now();
      const atMs = startOfStep(nowMs, SAMPLE_MS);
      if (atMs === sampledMs) return;
      sampledMs = atMs;
      const before = minuteMs;
      minuteMs = startOfStep(nowMs, MINUTE_MS);
      await Promise.all(regions.all().map((drivers) => sampleRegion(drivers, atMs)));
      if (before !== minuteMs && !Number.isNaN(before)) await endMinute(before, nowMs);
    },
    latestOf(id) {
      const series = seriesById.get(id);
      const span = series?.samples.at(-1);
      if (!series?.last || !span || Math.abs(time.now() - series.last.atMs) > 3 * SAMPLE_MS) return null;
      return { atMs: series.last.atMs, usage: series.last.reading, span };
    },
    lackingGpu: () => [...seriesById].filter(([, series]) => lacksGpu(series)).map(([id]) => id),
    takeKilled: () => takeAll(killed),
    memoryOf: (id) => minutesInMemory(seriesById.get(id) ?? emptySeries()),
    samplesOf: (id) => seriesById.get(id)?.samples ?? [],
    async minutesOf(id, fromMs) {
      const hours = await hoursSince(store.read, [id], startOfStep(fromMs, HOUR_MS));
      const inMemory = seriesById.get(id);
      return mergeMinutes(inMemory ? minutesInMemory(inMemory) : [], hours.flatMap(unpackMinutes));
    },
  };
}
