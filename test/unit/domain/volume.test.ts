import { expect, test } from 'vitest';
import { regionId, userId, volumeId } from '../../../src/domain/kernel/ids.ts';
import { beginOperation, endOperation, type Operation } from '../../../src/domain/compute/operation.ts';
import {
  failVolume,
  planVolume,
  publicVolume,
  volumeStatuses,
  refusalOfVolumeUse,
  type VolumeObservation,
  type VolumeStatus,
  type VolumeStep,
} from '../../../src/domain/storage/volume.ts';

const absent: VolumeObservation = { kind: 'absent' };
const unknown: VolumeObservation = { kind: 'unknown', reason: 'not mounted' };
const present = (sizeGB: number | null): VolumeObservation => ({ kind: 'present', sizeGB });
const underWay = beginOperation('expandVolume', 'user', 1);
const done = endOperation(underWay, 'Succeeded', 2);
const planned = (
  status: VolumeStatus,
  seen: VolumeObservation,
  { operation = done, destroyed = false }: { operation?: Operation; destroyed?: boolean } = {},
): VolumeStep => planVolume({ status, sizeGB: 5, operation }, seen, { destroyed });

test.each(volumeStatuses)('%s: rests while the backing is unknown', (status) => {
  expect(planned(status, unknown, { destroyed: true })).toEqual({ do: 'rest' });
});

test('plans a step for each status, with and without the backing', () => {
  expect(planned('Pending', absent)).toEqual({ do: 'create' });
  expect(planned('Pending', present(5))).toEqual({ do: 'mark', status: 'Bound' });
  expect(planned('Bound', present(5))).toEqual({ do: 'rest' });
  expect(planned('Bound', absent)).toEqual({ do: 'mark', status: 'Lost' });
  expect(planned('Lost', absent)).toEqual({ do: 'rest' });
  expect(planned('Lost', present(5))).toEqual({ do: 'mark', status: 'Bound' });
  expect(planned('Failed', absent)).toEqual({ do: 'rest' });
  expect(planned('Terminating', present(5))).toEqual({ do: 'destroy' });
});

test('grows a backing below the requested size, with or without an operation, and ends the operation at that size', () => {
  expect(planned('Bound', present(4), { operation: underWay })).toEqual({ do: 'grow' });
  expect(planned('Bound', present(4))).toEqual({ do: 'grow' });
  expect(planned('Bound', present(5), { operation: underWay })).toEqual({ do: 'mark', status: 'Bound' });
  expect(planned('Bound', present(6))).toEqual({ do: 'rest' });
  expect(planned('Bound', present(null), { operation: underWay })).toEqual({ do: 'mark', status: 'Bound' });
  expect(planned('Terminating', present(4))).toEqual({ do: 'destroy' });
});

test('destroys a deleted volume even when no backing is observed, then forgets it', () => {
  expect(planned('Terminating', absent)).toEqual({ do: 'destroy' });
  expect(planned('Terminating', absent, { destroyed: true })).toEqual({ do: 'forget' });
  expect(planned('Terminating', present(5), { destroyed: true })).toEqual({ do: 'destroy' });
});

test('a failed expand leaves the volume Bound at its actual size; a failed create leaves it Failed', () => {
  const volume = { ...aVolume, sizeGB: 9, status: 'Bound', source: null, operation: underWay } as const;
  const why = { reason: 'StorageFull', message: 'the host is full' };
  expect(failVolume(volume, { ...why, hasGB: 5 }, 7)).toMatchObject({
    status: 'Bound',
    sizeGB: 5,
    operation: {
      state: 'Failed',
      endedAtMs: 7,
      error: { ...why, whatToDo: expect.stringMatching(/^The volume is unchanged/) },
    },
  });
  expect(failVolume({ ...volume, status: 'Pending' }, { ...why, hasGB: null }, 7)).toMatchObject({
    status: 'Failed',
    sizeGB: 9,
    operation: { state: 'Failed', error: why },
  });
});

test('only a Bound volume can be copied or expanded; a refusal names the status', () => {
  const whys = volumeStatuses.map((status) => refusalOfVolumeUse({ status }));
  expect(whys.filter((why) => why === null)).toHaveLength(1);
  expect(refusalOfVolumeUse({ status: 'Bound' })).toBeNull();
  for (const status of volumeStatuses) if (status !== 'Bound') expect(refusalOfVolumeUse({ status })).toContain(status);
});

const aVolume = {
  id: volumeId('v'),
  ownerId: userId('u'),
  ownerName: 'ada',
  createdAtMs: 1,
  name: 'data',
  regionId: regionId('r'),
  type: 'filesystem',
  sizeGB: 5,
  usageBytes: 1.23456 * 1024 ** 3,
  status: 'Bound',
  generation: 1,
} as const;

test('shows usage in GB to three decimals', () => {
  expect(publicVolume(aVolume)).toEqual({
    id: 'v',
    volumeName: 'data',
    region: 'r',
    volumeType: 'filesystem',
    sizeGB: 5,
    usageGB: 1.235,
    status: 'Bound',
    username: 'ada',
  });
});
