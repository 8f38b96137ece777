import { expect, test } from 'vitest';
import type { PersistentVolumeClaim, VolumeSnapshot } from '../../../src/kubernetes/api-objects.ts';
import { observedClaim, observedSnapshot, resizeState } from '../../../src/storage/claims/claim-observation.ts';

const late = { bindsAtUse: true };
const early = { bindsAtUse: false };
const absent = { kind: 'absent' };
const present = (sizeGB: number | null) => ({ kind: 'present', sizeGB });

const claim = (
  status: PersistentVolumeClaim['status'],
  more: Partial<NonNullable<PersistentVolumeClaim['spec']>> = {},
): PersistentVolumeClaim => ({
  spec: { resources: { requests: { storage: '3Gi' } }, ...more },
  ...(status && { status }),
});

test('a claim is present from the time that its volume exists, or is made at the first use', () => {
  expect(observedClaim(null, late)).toEqual(absent);
  expect(observedClaim(claim({ phase: 'Pending' }), late)).toEqual(present(3));
  expect(observedClaim(claim({ phase: 'Pending' }), early)).toEqual(absent);
  expect(observedClaim(claim({ phase: 'Bound', capacity: { storage: '3Gi' } }), early)).toEqual(present(3));
});

test('a copy is present once it has its content', () => {
  const dataSource = { kind: 'VolumeSnapshot', name: 'from' };
  expect(observedClaim(claim({ phase: 'Pending' }, { dataSource }), late)).toEqual(absent);
  const bound = { phase: 'Bound', capacity: { storage: '3Gi' } };
  expect(observedClaim(claim(bound, { dataSource }), late)).toEqual(present(3));
});

test('a claim that has lost its volume is absent, one that is being removed is present', () => {
  expect(observedClaim(claim({ phase: 'Lost' }), late)).toEqual(absent);
  const leaving = { ...claim({ phase: 'Bound' }), metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } };
  expect(observedClaim(leaving, late)).toEqual(present(null));
});

test('a claim has the size of its volume until that has grown', () => {
  const status = {
    phase: 'Bound',
    capacity: { storage: '1Gi' },
    conditions: [{ type: 'FileSystemResizePending', status: 'True' }],
  };
  expect(observedClaim(claim(status), late)).toEqual(present(1));
  expect(resizeState(claim(status))).toEqual({ waitsForPod: true, failed: null });
  const infeasible = {
    ...status,
    conditions: [{ type: 'ControllerResizeError', status: 'True', message: 'too large' }],
    allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' },
  };
  expect(resizeState(claim(infeasible))).toEqual({ waitsForPod: false, failed: 'too large' });
});

test('a snapshot is present once it is ready', () => {
  const snapshot = (status?: VolumeSnapshot['status']): VolumeSnapshot => ({
    spec: { source: {} },
    ...(status && { status }),
  });
  expect(observedSnapshot(null)).toEqual(absent);
  expect(observedSnapshot(snapshot())).toEqual(absent);
  expect(observedSnapshot(snapshot({ readyToUse: false, restoreSize: '2Gi' }))).toEqual(absent);
  expect(observedSnapshot(snapshot({ readyToUse: true, restoreSize: '2Gi' }))).toEqual(present(2));
});
