import { expect, test } from 'vitest';
import { planSnapshot, snapshotStatuses } from '../../../src/domain/storage/snapshot.ts';
import type { VolumeObservation } from '../../../src/domain/storage/volume.ts';

const absent: VolumeObservation = { kind: 'absent' };
const present: VolumeObservation = { kind: 'present', sizeGB: 1 };

test('plans a step for each status, with and without the copy', () => {
  const planned = (status: (typeof snapshotStatuses)[number], seen: VolumeObservation, destroyed = false) =>
    planSnapshot({ status }, seen, { destroyed }).do;
  expect(planned('Pending', absent)).toBe('copy');
  expect(planned('Pending', present)).toBe('ready');
  for (const status of ['Ready', 'Failed'] as const)
    for (const seen of [absent, present]) expect(planned(status, seen)).toBe('rest');
  expect(planned('Terminating', present)).toBe('destroy');
  expect(planned('Terminating', absent)).toBe('destroy');
  expect(planned('Terminating', absent, true)).toBe('forget');
  for (const status of snapshotStatuses)
    expect(planned(status, { kind: 'unknown', reason: 'not mounted' }, true)).toBe('rest');
});
