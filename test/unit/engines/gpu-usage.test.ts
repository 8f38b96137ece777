/** Figures of an instance's GPUs, of which the host has lost one. */
import { expect, test } from 'vitest';
import { makeReadGpus } from '../../../src/engines/docker/usage/gpus.ts';
import type { GpuUsage } from '../../../src/engines/contract.ts';

type Deps = Parameters<typeof makeReadGpus>[0];

const figures = {
  busyPercent: 7,
  memoryUsedBytes: 1,
  memoryTotalBytes: 2,
  powerMilliwatts: 3,
  temperatureCelsius: 4,
};
const unknown = {
  busyPercent: null,
  memoryUsedBytes: null,
  memoryTotalBytes: null,
  powerMilliwatts: null,
  temperatureCelsius: null,
};

/** `read`: ids with figures; the command inside fails. */
const readGpus = (gpuIds: string[], { read, lost }: { read: string[]; lost: string[] }): Promise<GpuUsage[] | null> => {
  const cards: Deps['cards'] = {
    usageOf: (id) => (read.includes(id) ? { deviceId: id, ...figures } : undefined),
    uuidOf: (id) => id,
    isLost: (id) => lost.includes(id),
  };
  const container = {
    exec: () => Promise.reject(new Error('no such program')),
  };
  const client = {
    local: true,
    docker: { getContainer: () => container },
    call: (_signal: AbortSignal, work: (signal: AbortSignal) => unknown) => work(_signal),
  } as unknown as Deps['client'];
  const host = { facts: async () => ({ nsenter: null }) } as unknown as Deps['host'];
  const readOf = makeReadGpus({ client, host, cards, cardNodes: { of: async () => null } });
  const run = { info: { Id: 'a' }, pid: 1, gpuIds } as unknown as Parameters<typeof readOf>[0];
  return readOf(run, new AbortController().signal);
};

test('say which GPU the host has lost', async () => {
  expect(await readGpus(['0', '1'], { read: ['0', '1'], lost: ['1'] })).toEqual([
    { deviceId: '0', ...figures },
    { deviceId: '1', ...figures, isTaken: true },
  ]);
});

test('say it of a part of a card too, which has no figures', async () => {
  expect(await readGpus(['MIG-0', 'MIG-1'], { read: [], lost: [] })).toBeNull();
  expect(await readGpus(['MIG-0', 'MIG-1'], { read: [], lost: ['MIG-1'] })).toEqual([
    { deviceId: 'MIG-0', ...unknown },
    { deviceId: 'MIG-1', ...unknown, isTaken: true },
  ]);
});
