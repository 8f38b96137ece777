/** Charts of an instance from its metrics. Pure. */
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import type { Range } from './search.ts';

export type Metrics = AnswerOf<'metrics'>;
type Values = readonly (number | null)[];

export type Unit = 'cores' | 'memory' | 'bytesPerSecond' | 'percent';

/** Names of lines in the texts. */
export type LineName = 'cpu' | 'memory' | 'received' | 'sent' | 'read' | 'written' | 'gpu' | 'gpuMemory';
export interface ChartLine {
  name: LineName;
  mean: Values;
  /** Most within each step: the mean hides short peaks. */
  max: Values;
  now: number | null;
}

export type ChartName = 'cpu' | 'memory' | 'network' | 'disk' | 'gpu' | 'gpuMemory';
export interface ChartData {
  key: string;
  name: ChartName;
  /** From 0, of GPUs. */
  gpu: number | null;
  unit: Unit;
  lines: ChartLine[];
  limit: number | null;
}

const HOUR_MS = 3_600_000;
const rangeHours: Readonly<Record<Range, number>> = { '1h': 1, '6h': 6, '24h': 24 };
/** Steps that a chart can show apart. */
const stepSeconds: Readonly<Record<Range, number>> = { '1h': 15, '6h': 60, '24h': 180 };

export const spanOf = (range: Range, nowMs: number) => ({
  fromUnixMs: nowMs - rangeHours[range] * HOUR_MS,
  toUnixMs: nowMs,
  stepSeconds: stepSeconds[range],
});

/** Starts of the steps in seconds. */
export const timesOf = ({ fromUnixMs, stepSeconds: step, series }: Metrics): number[] =>
  series.cpuMilli.mean.map((_, at) => fromUnixMs / 1000 + at * step);

const scaled = (values: Values, factor: number): Values =>
  factor === 1 ? values : values.map((value) => (value === null ? null : value * factor));

type Series = Metrics['series']['cpuMilli'];
const lineOf = (name: LineName, { mean, max }: Series, now: number | null | undefined, factor = 1): ChartLine => ({
  name,
  mean: scaled(mean, factor),
  max: scaled(max, factor),
  now: now === null || now === undefined ? null : now * factor,
});

const MILLI = 1 / 1_000;

/** `cores` and `memoryBytes`: the limits of the type, while there is no sample. */
export function chartsOf({ series, now }: Metrics, limits: { cores: number; memoryBytes: number }): ChartData[] {
  const plain = { gpu: null, limit: null };
  return [
    {
      ...plain,
      key: 'cpu',
      name: 'cpu',
      unit: 'cores',
      lines: [lineOf('cpu', series.cpuMilli, now?.cpuMilli, MILLI)],
      limit: now === null ? limits.cores : now.cpuLimitMilli * MILLI,
    },
    {
      ...plain,
      key: 'memory',
      name: 'memory',
      unit: 'memory',
      lines: [lineOf('memory', series.memoryBytes, now?.memoryBytes)],
      limit: now?.memoryLimitBytes ?? limits.memoryBytes,
    },
    ...series.gpus.flatMap((gpu, index): ChartData[] => [
      {
        key: `gpu${index}`,
        name: 'gpu',
        gpu: index,
        unit: 'percent',
        lines: [lineOf('gpu', gpu.busyPercent, now?.gpus?.[index]?.busyPercent)],
        limit: 100,
      },
      {
        key: `gpuMemory${index}`,
        name: 'gpuMemory',
        gpu: index,
        unit: 'memory',
        lines: [lineOf('gpuMemory', gpu.memoryUsedBytes, now?.gpus?.[index]?.memoryUsedBytes)],
        limit: now?.gpus?.[index]?.memoryTotalBytes ?? null,
      },
    ]),
    {
      ...plain,
      key: 'network',
      name: 'network',
      unit: 'bytesPerSecond',
      lines: [
        lineOf('received', series.receivedBytesPerSecond, now?.receivedBytesPerSecond),
        lineOf('sent', series.sentBytesPerSecond, now?.sentBytesPerSecond),
      ],
    },
    {
      ...plain,
      key: 'disk',
      name: 'disk',
      unit: 'bytesPerSecond',
      lines: [
        lineOf('read', series.readBytesPerSecond, now?.readBytesPerSecond),
        lineOf('written', series.writtenBytesPerSecond, now?.writtenBytesPerSecond),
      ],
    },
  ];
}

export interface Summary {
  now: number | null;
  mean: number | null;
  max: number | null;
}

/** Figures of a line over the shown time; null without any value. */
export function summaryOf({ now, mean, max }: ChartLine): Summary {
  const measured = mean.filter((value) => value !== null);
  const peaks = max.filter((value) => value !== null);
  return {
    now,
    mean: measured.length === 0 ? null : measured.reduce((sum, value) => sum + value, 0) / measured.length,
    max: peaks.length === 0 ? null : peaks.reduce((most, value) => Math.max(most, value), 0),
  };
}
