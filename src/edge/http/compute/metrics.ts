/** Resource usage of an instance on the wire. */
import type { AnswerOf } from '../../../contract/routes.ts';
import type { InstanceMetrics } from '../../../control/index.ts';
import {
  type FigureName,
  type GpuFigureName,
  type MetricsValues,
  figureNames,
  gpuFigureNames,
} from '../../../domain/compute/metrics.ts';

type MetricsAnswer = AnswerOf<'metrics'>;

const figure = (values: MetricsValues | undefined, at: number): number | null => {
  const value = values?.[at] ?? Number.NaN;
  return Number.isNaN(value) ? null : value;
};

export function presentMetrics(instanceId: string, metrics: InstanceMetrics): MetricsAnswer {
  const { fromMs, toMs, stepMs, steps, gpuCount } = metrics;
  const seriesAt = (at: number) => ({
    mean: steps.map((step) => figure(step?.mean, at)),
    max: steps.map((step) => figure(step?.max, at)),
  });
  const gpu = (nth: number) => {
    const first = figureNames.length + nth * gpuFigureNames.length;
    return eachGpuFigure((name) => seriesAt(first + gpuFigureNames.indexOf(name)));
  };
  return {
    instanceId,
    fromUnixMs: fromMs,
    toUnixMs: toMs,
    stepSeconds: stepMs / 1000,
    series: {
      ...eachFigure((name) => seriesAt(figureNames.indexOf(name))),
      gpus: Array.from({ length: gpuCount }, (_, nth) => gpu(nth)),
    },
    now: nowOf(metrics),
  };
}

function nowOf({ now, cpuLimitMilli, gpuCount }: InstanceMetrics): MetricsAnswer['now'] {
  if (now === null) return null;
  const { memoryLimitBytes, processLimit, memoryKills = null, gpus } = now.usage;
  return {
    atUnixMs: now.atMs,
    ...eachFigure((name) => figure(now.span.mean, figureNames.indexOf(name))),
    cpuLimitMilli,
    memoryLimitBytes,
    processLimit,
    memoryKills,
    gpus:
      gpuCount === 0
        ? []
        : (gpus?.map(({ deviceId: _device, isTaken: _taken, slowedBy: _slowed, ...figures }) => figures) ?? null),
  };
}

const eachFigure = <Of>(of: (name: FigureName) => Of): Record<FigureName, Of> => ({
  cpuMilli: of('cpuMilli'),
  memoryBytes: of('memoryBytes'),
  receivedBytesPerSecond: of('receivedBytesPerSecond'),
  sentBytesPerSecond: of('sentBytesPerSecond'),
  readBytesPerSecond: of('readBytesPerSecond'),
  writtenBytesPerSecond: of('writtenBytesPerSecond'),
  processes: of('processes'),
});

const eachGpuFigure = <Of>(of: (name: GpuFigureName) => Of): Record<GpuFigureName, Of> => ({
  busyPercent: of('busyPercent'),
  memoryUsedBytes: of('memoryUsedBytes'),
  powerMilliwatts: of('powerMilliwatts'),
  temperatureCelsius: of('temperatureCelsius'),
});
