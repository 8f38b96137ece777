/** Resource usage of an instance, now and over the last hours. */
import { z } from 'zod';
import { answer, decimal, id, integer, request, text, unixMs, wholeNumber } from '../common.ts';
import { readRoute } from '../route.ts';

const SAMPLE_SECONDS = 15;
const DAY_SECONDS = 86_400;

/** Control checks the times, which depend on the server's clock. */
export const metricsRequest = request('MetricsRequest', {
  instanceId: id.describe('Instance ID'),
  fromUnixMs: z
    .number()
    .int()
    .min(0)
    .describe('Start, Unix milliseconds; by default an hour before `toUnixMs`')
    .optional(),
  toUnixMs: z.number().int().min(0).describe('End, Unix milliseconds; by default now').optional(),
  stepSeconds: wholeNumber(SAMPLE_SECONDS, DAY_SECONDS)
    .meta({ multipleOf: SAMPLE_SECONDS })
    .describe('Length of a step; by default the finest stored')
    .optional(),
});

const values = z.array(z.number().nullable());
const series = answer('MetricSeries', {
  mean: values.describe('Mean of each step; null without data'),
  max: values.describe('Maximum of each step; null without data'),
});
const figure = (description: string) => z.number().nullable().describe(`${description}; null without data`);

const gpuSeries = answer('GpuSeries', {
  busyPercent: series.describe('Utilization in percent'),
  memoryUsedBytes: series.describe('Used memory in bytes'),
  powerMilliwatts: series.describe('Power in milliwatts'),
  temperatureCelsius: series.describe('Temperature in degrees Celsius'),
});
const gpuSample = answer('GpuSample', {
  busyPercent: figure('Utilization in percent'),
  memoryUsedBytes: figure('Used memory in bytes'),
  memoryTotalBytes: figure('Memory in bytes'),
  powerMilliwatts: figure('Power in milliwatts'),
  temperatureCelsius: figure('Temperature in degrees Celsius'),
});

const allSeries = answer('MetricsSeries', {
  cpuMilli: series.describe('CPU in thousandths of a core'),
  memoryBytes: series.describe('Working set in bytes: without reclaimable page cache'),
  receivedBytesPerSecond: series.describe('Received bytes per second'),
  sentBytesPerSecond: series.describe('Sent bytes per second'),
  readBytesPerSecond: series.describe('Bytes per second from block devices; page cache hits do not count'),
  writtenBytesPerSecond: series.describe('Bytes per second to block devices, counted at write-back'),
  processes: series.describe('Processes and threads'),
  gpus: z.array(gpuSeries).describe('One entry for each GPU'),
});
const sample = answer('MetricsSample', {
  atUnixMs: unixMs('Time of the sample'),
  cpuMilli: figure('CPU in thousandths of a core'),
  cpuLimitMilli: decimal('CPU limit in thousandths of a core'),
  memoryBytes: figure('Working set in bytes'),
  memoryLimitBytes: figure('Memory limit in bytes'),
  receivedBytesPerSecond: figure('Received bytes per second'),
  sentBytesPerSecond: figure('Sent bytes per second'),
  readBytesPerSecond: figure('Bytes per second from block devices'),
  writtenBytesPerSecond: figure('Bytes per second to block devices'),
  processes: figure('Processes and threads'),
  processLimit: figure('Limit of processes and threads'),
  memoryKills: figure('Processes that the kernel has killed in this run for want of memory'),
  gpus: z.array(gpuSample).nullable().describe('One entry for each GPU; null if the GPUs could not be read'),
});

export const metricsAnswer = answer('Metrics', {
  instanceId: text('Instance ID'),
  fromUnixMs: integer('Start, rounded to whole steps: step n begins at fromUnixMs + n * stepSeconds * 1000'),
  toUnixMs: integer('End, exclusive, rounded to whole steps'),
  stepSeconds: integer('Length of a step'),
  series: allSeries.describe('One series for each figure'),
  now: sample.nullable().describe('Last sample; null while the instance does not run or without recent data'),
});

export const metricsRoutes = {
  metrics: readRoute('/instance/metrics', metricsRequest, metricsAnswer, {
    compressed: true,
    summary:
      'Return the resource usage of an instance over the last 24 hours: by 15 seconds for an hour, then by the minute',
  }),
} as const;
