import { expect, test } from 'vitest';
import type { StorageClass, VolumeSnapshotClass } from '../../../src/kubernetes/api-objects.ts';
import { classFacts } from '../../../src/storage/claims/class-facts.ts';

const fast: StorageClass = {
  provisioner: 'csi.example',
  allowVolumeExpansion: true,
  volumeBindingMode: 'WaitForFirstConsumer',
};

const snapshots = (name: string, driver = 'csi.example', isDefault = false): VolumeSnapshotClass => ({
  metadata: {
    name,
    annotations: isDefault ? { 'snapshot.storage.kubernetes.io/is-default-class': 'true' } : {},
  },
  driver,
  deletionPolicy: 'Delete',
});

test('a class that grows, with one snapshot class of its driver, has no limits', () => {
  const classes = [snapshots('mine'), snapshots('theirs', 'csi.other', true)];
  expect(classFacts(fast, classes, { storageClass: 'fast' })).toEqual({ bindsAtUse: true, snapshotClass: 'mine' });
});

test('takes the named one of several snapshot classes, or the default one', () => {
  const classes = [snapshots('a'), snapshots('b', 'csi.example', true)];
  expect(classFacts(fast, classes, { storageClass: 'fast' })).toMatchObject({ snapshotClass: 'b' });
  expect(classFacts(fast, classes, { storageClass: 'fast', snapshotClass: 'a' })).toMatchObject({ snapshotClass: 'a' });
});

test.each([
  [[], {}, 'no snapshot class of the driver csi.example'],
  [[snapshots('theirs', 'csi.other')], {}, 'no snapshot class of the driver csi.example'],
  [[snapshots('a'), snapshots('b')], {}, 'none is the default; name one'],
  [[snapshots('a')], { snapshotClass: 'b' }, 'no snapshot class b of the driver csi.example'],
])('says why there are no copies: %j %j', (classes, names, why) => {
  const facts = classFacts(fast, classes, { storageClass: 'fast', ...names });
  expect(facts.snapshotClass).toBeUndefined();
  expect(facts.whyNoCopies).toContain(why);
});

test('says why volumes do not grow', () => {
  const fixed: StorageClass = { provisioner: 'csi.example', volumeBindingMode: 'Immediate' };
  expect(classFacts(fixed, [], { storageClass: 'fixed' })).toMatchObject({
    bindsAtUse: false,
    whyNoGrowth: expect.stringContaining('fixed does not let volumes grow'),
  });
});
