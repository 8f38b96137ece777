/** What a running instance uses, now and over the last hours. All of it ours. */
import { z } from 'zod';
import { id } from './common.ts';

const SAMPLE_SECONDS = 15;
const DAY_SECONDS = 86_400;

export const metricsRequest = z.object({
  instanceId: id,
  /** Left out: an hour before `toUnixMs`. What can be asked for depends on the server's clock: control decides. */
  fromUnixMs: z.number().int().min(0).optional(),
  /** Left out: now. */
  toUnixMs: z.number().int().min(0).optional(),
  /** Left out: as fine as it is kept. */
  stepSeconds: z.number().int().min(SAMPLE_SECONDS).max(DAY_SECONDS).optional(),
});

/** One value for each step; null: nothing is known of it. */
const values = z.array(z.number().nullable());
const series = z.strictObject({ mean: values, max: values });
const figure = z.number().nullable();

const gpuFigures = {
  busyPercent: figure,
  memoryUsedBytes: figure,
  memoryTotalBytes: figure,
  powerMilliwatts: figure,
  temperatureCelsius: figure,
};

export const metricsAnswer = z.strictObject({
  instanceId: z.string(),
  /** Rounded to whole steps, `toUnixMs` not in it: step n begins at fromUnixMs + n * stepSeconds * 1000. */
  fromUnixMs: z.number().int(),
  toUnixMs: z.number().int(),
  stepSeconds: z.number().int(),
  series: z.strictObject({
    /** Thousandths of a core. */
    cpuMilli: series,
    /** The working set: without the page cache that the kernel gives back first. */
    memoryBytes: series,
    receivedBytesPerSecond: series,
    sentBytesPerSecond: series,
    /** From and to block devices: what the page cache answers is not among it, what is written shows when it is written out. */
    readBytesPerSecond: series,
    writtenBytesPerSecond: series,
    /** Threads among them. */
    processes: series,
    gpus: z.array(
      z.strictObject({
        busyPercent: series,
        memoryUsedBytes: series,
        powerMilliwatts: series,
        temperatureCelsius: series,
      }),
    ),
  }),
  /** The last sample; null while it does not run, and when nothing was told of it of late. */
  now: z
    .strictObject({
      atUnixMs: z.number().int(),
      cpuMilli: figure,
      cpuLimitMilli: z.number(),
      memoryBytes: figure,
      memoryLimitBytes: figure,
      receivedBytesPerSecond: figure,
      sentBytesPerSecond: figure,
      readBytesPerSecond: figure,
      writtenBytesPerSecond: figure,
      processes: figure,
      processLimit: figure,
      /** Null: it has GPUs, and they could not be asked. */
      gpus: z.array(z.strictObject(gpuFigures)).nullable(),
    })
    .nullable(),
});
