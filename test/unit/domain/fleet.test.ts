/** GPUs of a region with their holders. */
import { expect, test } from 'vitest';
import { unknownFigures } from '../../../src/engines/docker/cards/readings.ts';
import { assignGpus, type GpuHolder } from '../../../src/domain/regions/fleet.ts';

const devices = ['a', 'b', 'c', 'd'].map((id) => ({ id, model: id === 'd' ? 'H100' : 'A100' }));
const figures = (busyPercent: number) => ({ ...unknownFigures, busyPercent });
const sample = (deviceId: string, busyPercent: number) => ({ deviceId, ...figures(busyPercent) });
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
  assignGpus(devices, holders).map((gpu) => [
    gpu.holder?.instanceId ?? null,
    gpu.isExact,
    gpu.figures?.busyPercent ?? null,
  ]);

test('gives a holder the devices that the engine names, with their utilization', () => {
  const gpus = [sample('b', 90), sample('d', 0)];
  expect(shown([holder('one', { count: 2, gpus })])).toEqual([
    [null, false, null],
    ['one', true, 90],
    [null, false, null],
    ['one', true, 0],
  ]);
});

test('draws a holder without a sample at a free device of its model, behind those that are known', () => {
  const known = holder('known', { gpus: [sample('a', 5)] });
  const large = holder('large', { model: 'H100' });
  expect(shown([holder('starting'), large, known])).toEqual([
    ['known', true, 5],
    ['starting', false, null],
    [null, false, null],
    ['large', false, null],
  ]);
});

test('shows each device once: holders of more than there are, or of one device, lose none of the others', () => {
  const both = ['one', 'two'].map((id) => holder(id, { gpus: [sample('a', 1)] }));
  expect(shown([...both, holder('many', { count: 9 })]).map(([id]) => id)).toEqual(['one', 'two', 'many', 'many']);
});

test('shows the figures of the probe for GPUs that nobody holds, and where the sample names none', () => {
  const read = devices.map((one, nth) => ({ ...one, figures: figures(nth) }));
  const known = holder('known', { gpus: [sample('a', 90)] });
  const unnamed = holder('unnamed', { gpus: [figures(50)] });
  const busy = assignGpus(read, [known, unnamed]).map((gpu) => gpu.figures?.busyPercent);
  expect(busy).toEqual([90, 1, 2, 3]);
  expect(assignGpus(devices, [unnamed])[0]?.figures?.busyPercent).toBe(50);
});
