/** Instances whose GPU the host has taken. */
import { expect, test } from 'vitest';
import { plan } from '../../../src/domain/compute/plan.ts';
import { at, limits, now, running } from './plan-fixture.ts';

test('names a GPU that the host has taken, until it is known to be back', () => {
  const up = at('running', { status: 'Running', phase: 'Ready', healthy: true });
  const lost = { do: 'mark', show: { diagnosis: 'GpuLost' } };
  expect(plan(up, { ...running, isGpuLost: true }, now, limits)).toMatchObject(lost);
  expect(plan(up, { ...running, isGpuLost: false }, now, limits)).toEqual({ do: 'rest' });
  const named = at('running', { status: 'Running', phase: 'Ready', healthy: true, diagnosis: 'GpuLost' });
  for (const observation of [running, { ...running, isGpuLost: true }])
    expect(plan(named, observation, now, limits)).toEqual({ do: 'rest' });
  expect(plan(named, { ...running, isGpuLost: false }, now, limits)).toMatchObject({
    do: 'mark',
    show: { diagnosis: '' },
  });
});
