import { afterAll, beforeAll, expect, test } from 'vitest';
import { presentMetrics } from '../../../src/edge/http/compute/metrics.ts';
import { metricsAnswer } from '../../../src/contract/compute/metrics.ts';
import type { InstanceMetrics } from '../../../src/control/compute/inside/metrics/metrics.ts';
import { startApi, launchRequest, type Account, type TestApi } from './harness.ts';

const HOUR_MS = 3_600_000;

let api: TestApi;
let alice: Account;
let instanceId: string;

beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
  ({ instanceId } = await alice.client.launch(launchRequest()));
});
afterAll(() => api.stop());

const metrics = (body: object) => api.post('/instance/metrics', { instanceId, ...body }, { token: alice.token });

test('returns samples of the last hour by default, with null for unknown figures', async () => {
  const answer = await alice.client.metrics({ instanceId });
  expect(answer.stepSeconds).toBe(15);
  const steps = (answer.toUnixMs - answer.fromUnixMs) / 15_000;
  expect(steps).toBeGreaterThanOrEqual(240);
  expect(steps).toBeLessThanOrEqual(241);
  const { gpus, ...series } = answer.series;
  expect(gpus).toEqual([]);
  for (const [name, { mean, max }] of Object.entries(series)) {
    expect(mean, name).toHaveLength(steps);
    expect(max, name).toHaveLength(steps);
    expect(mean.slice(0, 100), `${name}, from before it was launched`).toEqual(Array(100).fill(null));
  }
});

test('returns a day by the minute, and requested steps', async () => {
  const nowMs = Date.now();
  const day = await alice.client.metrics({ instanceId, fromUnixMs: nowMs - 24 * HOUR_MS });
  expect(day.stepSeconds).toBe(60);
  expect(day.series.cpuMilli.mean.length).toBeLessThanOrEqual(1_442);
  const hours = await alice.client.metrics({
    instanceId,
    fromUnixMs: nowMs - 24 * HOUR_MS,
    toUnixMs: nowMs - 2 * HOUR_MS,
    stepSeconds: 3_600,
  });
  expect(hours.fromUnixMs % HOUR_MS).toBe(0);
  expect(hours.series.cpuMilli.mean.length).toBeGreaterThanOrEqual(22);
  expect(hours.series.cpuMilli.mean.length).toBeLessThanOrEqual(23);
});

test('refuses invalid ranges and names valid ones', async () => {
  const nowMs = Date.now();
  const bad: [object, RegExp][] = [
    [{ stepSeconds: 14 }, /^field "stepSeconds" is 14: it must be a whole number from 15 to 86400$/],
    [{ stepSeconds: 20 }, /^field "stepSeconds" is 20: it must be a multiple of 15/],
    [{ stepSeconds: '60' }, /^type mismatch for field "stepSeconds"$/],
    [{ fromUnixMs: -1 }, /^field "fromUnixMs" is -1: it must be a whole number/],
    [{ fromUnixMs: 1 }, /^field "fromUnixMs" is 1: it must be at least \d+, because samples are stored for 24 hours$/],
    [{ fromUnixMs: nowMs, toUnixMs: nowMs - 1_000 }, /it must be before toUnixMs/],
    [{ toUnixMs: nowMs + HOUR_MS }, /it must be at most \d+, the time now$/],
    [
      { fromUnixMs: nowMs - 2 * HOUR_MS, stepSeconds: 15 },
      /it must be a multiple of 60 for samples older than an hour/,
    ],
  ];
  for (const [body, words] of bad) {
    const reply = await metrics(body);
    expect(reply.status, JSON.stringify(body)).toBe(400);
    expect(reply.json).toMatchObject({ message: expect.stringMatching(words) });
  }
});

test("answers for another account's instance as for an unknown one", async () => {
  const mallory = await api.newAccount();
  for (const id of [instanceId, 'notebook-00000000-0000-4000-8000-000000000000']) {
    const reply = await api.post('/instance/metrics', { instanceId: id }, { token: mallory.token });
    expect(reply.status).toBe(404);
    expect(reply.json).toMatchObject({ message: 'ent: instance not found' });
  }
});

test("returns each figure under its name, and each GPU's under its own", () => {
  const gpu = {
    busyPercent: 90,
    memoryUsedBytes: 91,
    memoryTotalBytes: 99,
    powerMilliwatts: 92,
    temperatureCelsius: null,
  };
  const usage = {
    atMs: 5,
    startedAtMs: 1,
    cpuMilli: 0,
    cpuOverMs: 0,
    cpuTimeMs: 0,
    memoryBytes: 0,
    memoryLimitBytes: 200,
    receivedBytes: 0,
    sentBytes: 0,
    readBytes: 0,
    writtenBytes: 0,
    processes: 0,
    memoryKills: 3,
    processLimit: null,
    gpus: [gpu, gpu],
    rootDiskBytes: null,
  };
  const mean = [1, 2, 3, 4, Number.NaN, 6, 7, 90, 91, 92, Number.NaN, 80, 81, 82, 83];
  const span = { atMs: 15_000, mean, max: mean.map((value) => value * 10) };
  const reported: InstanceMetrics = {
    fromMs: 0,
    toMs: 30_000,
    stepMs: 15_000,
    gpuCount: 2,
    cpuLimitMilli: 500,
    steps: [null, span],
    now: { atMs: 15_000, usage, span },
  };
  const answer = presentMetrics('notebook-1', reported);
  expect(metricsAnswer.parse(answer)).toEqual(answer);
  const series = (value: number | null) => ({ mean: [null, value], max: [null, value === null ? null : value * 10] });
  expect(answer).toEqual({
    instanceId: 'notebook-1',
    fromUnixMs: 0,
    toUnixMs: 30_000,
    stepSeconds: 15,
    series: {
      cpuMilli: series(1),
      memoryBytes: series(2),
      receivedBytesPerSecond: series(3),
      sentBytesPerSecond: series(4),
      readBytesPerSecond: series(null),
      writtenBytesPerSecond: series(6),
      processes: series(7),
      gpus: [
        {
          busyPercent: series(90),
          memoryUsedBytes: series(91),
          powerMilliwatts: series(92),
          temperatureCelsius: series(null),
        },
        {
          busyPercent: series(80),
          memoryUsedBytes: series(81),
          powerMilliwatts: series(82),
          temperatureCelsius: series(83),
        },
      ],
    },
    now: {
      atUnixMs: 15_000,
      cpuMilli: 1,
      cpuLimitMilli: 500,
      memoryBytes: 2,
      memoryLimitBytes: 200,
      receivedBytesPerSecond: 3,
      sentBytesPerSecond: 4,
      readBytesPerSecond: null,
      writtenBytesPerSecond: 6,
      processes: 7,
      memoryKills: 3,
      processLimit: null,
      gpus: [gpu, gpu],
    },
  });
});
