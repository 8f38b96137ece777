import { expect, test } from 'vitest';
import { regionId, userId, volumeId } from '../../src/domain/ids.ts';
import {
  planVolume,
  publicVolume,
  volumeStatuses,
  type VolumeObservation,
  type VolumeStatus,
} from '../../src/domain/volume.ts';

const absent: VolumeObservation = { kind: 'absent' };
const unknown: VolumeObservation = { kind: 'unknown', reason: 'not mounted' };
const present: VolumeObservation = { kind: 'present' };
const at = (status: VolumeStatus): { status: VolumeStatus } => ({ status });

test.each(volumeStatuses)('%s: unknown is not absent, and changes nothing', (status) => {
  expect(planVolume(at(status), unknown)).toEqual({ do: 'rest' });
});

test('each status, with its backing seen or not, has its step', () => {
  expect(planVolume(at('Pending'), absent)).toEqual({ do: 'create' });
  expect(planVolume(at('Pending'), present)).toEqual({ do: 'mark', status: 'Bound' });
  expect(planVolume(at('Bound'), present)).toEqual({ do: 'rest' });
  expect(planVolume(at('Bound'), absent)).toEqual({ do: 'mark', status: 'Lost' });
  expect(planVolume(at('Lost'), absent)).toEqual({ do: 'rest' });
  expect(planVolume(at('Lost'), present)).toEqual({ do: 'mark', status: 'Bound' });
  expect(planVolume(at('Terminating'), present)).toEqual({ do: 'destroy' });
  expect(planVolume(at('Terminating'), absent)).toEqual({ do: 'forget' });
});

test('usage is told in GB to three places', () => {
  const volume = {
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
  expect(publicVolume(volume)).toEqual({
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
