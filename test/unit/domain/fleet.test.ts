/** GPUs of a region with their holders. */
import { expect, test } from 'vitest';
import { assignGpus, type GpuHolder } from '../../../src/domain/regions/fleet.ts';

const devices = ['a', 'b', 'c', 'd'].map((id) => ({ id, model: id === 'd' ? 'H100' : 'A100' }));
const holder = (instanceId: string, more: Partial<GpuHolder> = {}): GpuHolder => ({
  instanceId,
  name: instanceId,
  ownerId: 'o',
  ownerName: 'ann',
  count: 1,
  model: 'A100',
  gpus: [],
  ...more,
});
const shown = (holders: readonly GpuHolder[]) =>
  assignGpus(devices, holders).map((gpu) => [gpu.holder?.instanceId ?? null, gpu.isExact, gpu.busyPercent]);

test('gives a holder the devices that the engine names, with their utilization', () => {
  const gpus = [
    { deviceId: 'b', busyPercent: 90 },
    { deviceId: 'd', busyPercent: 0 },
  ];
  expect(shown([holder('one', { count: 2, gpus })])).toEqual([
    [null, false, null],
    ['one', true, 90],
    [null, false, null],
    ['one', true, 0],
  ]);
});

test('draws a holder without a sample at a free device of its model, behind those that are known', () => {
  const known = holder('known', { gpus: [{ deviceId: 'a', busyPercent: 5 }] });
  const large = holder('large', { model: 'H100' });
  expect(shown([holder('starting'), large, known])).toEqual([
    ['known', true, 5],
    ['starting', false, null],
    [null, false, null],
    ['large', false, null],
  ]);
});

test('shows each device once: holders of more than there are, or of one device, lose none of the others', () => {
  const both = ['one', 'two'].map((id) => holder(id, { gpus: [{ deviceId: 'a', busyPercent: 1 }] }));
  expect(shown([...both, holder('many', { count: 9 })]).map(([id]) => id)).toEqual(['one', 'two', 'many', 'many']);
});
