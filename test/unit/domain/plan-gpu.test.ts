/** Instances whose GPU the host has taken. */
import { expect, test } from 'vitest';
import type { Observed } from '../../../src/domain/compute/instance.ts';
import { plan } from '../../../src/domain/compute/plan.ts';
import { at, limits, now, running } from './plan-fixture.ts';

const RUN_MS = now - 60_000;
const lostGpu = { runStartedAtMs: RUN_MS, sinceMs: now - 5_000, priceMicros: 1 };
const up = (more: Partial<Observed> = {}) =>
  at('running', { status: 'Running', phase: 'Ready', healthy: true, runStartedAtMs: RUN_MS, ...more });
const planned = (more: Partial<Observed>, gpuLostAtMs?: number | null) =>
  plan(up(more), { ...running, startedAtMs: RUN_MS, ...(gpuLostAtMs !== undefined && { gpuLostAtMs }) }, now, limits);

test('names a GPU that the host has taken, until it is known to be back', () => {
  const sinceMs = now - 3_000;
  expect(planned({}, sinceMs)).toMatchObject({ do: 'loseGpu', sinceMs, show: { diagnosis: 'GpuLost' } });
  expect(planned({}, null)).toEqual({ do: 'rest' });
  const named = { diagnosis: 'GpuLost', lostGpu } as const;
  for (const gpuLostAtMs of [undefined, sinceMs]) expect(planned(named, gpuLostAtMs)).toEqual({ do: 'rest' });
  expect(planned(named, null)).toMatchObject({ do: 'mark', show: { diagnosis: '', lostGpu: null } });
});

test('takes the GPU of an instance that does not answer from its price too', () => {
  const silent = { healthy: false, diagnosis: 'Unhealthy' } as const;
  expect(planned(silent, now)).toEqual({ do: 'loseGpu', sinceMs: now, show: {} });
  expect(planned({ ...silent, lostGpu }, now)).toEqual({ do: 'rest' });
  expect(planned({ ...silent, lostGpu }, null)).toEqual({ do: 'mark', show: { lostGpu: null } });
  expect(planned({ lostGpu }, now)).toMatchObject({ do: 'mark', show: { diagnosis: 'GpuLost' } });
});

test('forgets the lost GPU of a run before', () => {
  const former = { lostGpu: { ...lostGpu, runStartedAtMs: RUN_MS - 1 }, diagnosis: 'GpuLost' } as const;
  expect(planned(former)).toMatchObject({ do: 'mark', show: { diagnosis: '' } });
});
