import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  claimManifest,
  filesPod,
  gbOfQuantity,
  snapshotManifest,
  type ClaimClass,
} from '../../../src/storage/claims/claim-manifests.ts';
import { copySourceName, diskOf, filesPodName, isOwned, objectName } from '../../../src/storage/claims/claim-names.ts';
import type { DiskId } from '../../../src/domain/storage/disk.ts';

const at: ClaimClass = {
  installation: '0199aa00-0000-7000-8000-000000000001',
  pool: 'default',
  storageClass: 'fast',
  accessMode: 'ReadWriteOnce',
};
const uuid = '3f2b8c1e-5d4a-4b6f-9c7e-1a2b3c4d5e6f';
const volume: DiskId = { kind: 'volume', id: uuid };
const shared: DiskId = { kind: 'shared', id: `${uuid}/Region_1` };
const snapshot: DiskId = { kind: 'snapshot', id: uuid };

const manifests: Record<string, unknown> = {
  claim: claimManifest(at, volume, 20),
  'claim-of-snapshot': claimManifest(at, volume, 20, objectName(snapshot)),
  'shared-claim': claimManifest({ ...at, accessMode: 'ReadWriteMany' }, shared, 5),
  snapshot: snapshotManifest(at, snapshot, {
    name: objectName(snapshot),
    snapshotClass: 'fast',
    of: objectName(volume),
  }),
  'snapshot-for-copy': snapshotManifest(at, volume, {
    name: copySourceName(volume),
    snapshotClass: 'fast',
    of: objectName({ kind: 'volume', id: 'other' }),
  }),
  'files-pod': filesPod(at, volume, { image: 'busybox:1.37', idleS: 60 }, null),
  'files-pod-on-node': filesPod(at, volume, { image: 'busybox:1.37', idleS: 60 }, 'node-1'),
};

test.each(Object.keys(manifests))('the manifest of %s is the expected one', (name) => {
  const expected = readFileSync(new URL(`../../expected/kubernetes/${name}.json`, import.meta.url), 'utf8');
  expect(manifests[name]).toEqual(JSON.parse(expected));
});

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

test('names fit a Pod and its labels, differ for different disks, and lead back to the disk', () => {
  const disks: DiskId[] = [
    volume,
    snapshot,
    shared,
    { kind: 'shared', id: `${uuid}/region-1` },
    { kind: 'shared', id: `${uuid}/Region-1` },
    { kind: 'data', id: `notebook-${uuid}` },
    { kind: 'docker', id: `notebook-${uuid}` },
    { kind: 'docker', id: `Notebook-${uuid}` },
    { kind: 'volume', id: 'a.b' },
    { kind: 'volume', id: 'a-b' },
    { kind: 'volume', id: `x${'y'.repeat(300)}` },
  ];
  const names = disks.flatMap((disk) => [objectName(disk), filesPodName(disk), copySourceName(disk)]);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) {
    expect(name).toMatch(NAME);
    expect(name.length, name).toBeLessThanOrEqual(63);
  }
  for (const disk of disks) {
    const manifest = claimManifest(at, disk, 1);
    expect(diskOf(manifest)).toEqual(disk);
    expect(isOwned(manifest, at)).toBe(true);
    expect(isOwned(manifest, { ...at, pool: 'other' })).toBe(false);
    for (const value of Object.values(manifest.metadata.labels ?? {})) expect(value).toMatch(/^[\w.-]{1,63}$/);
  }
  expect(diskOf({ metadata: { annotations: { 'berth.disk': 'volume/../x' } } })).toBeNull();
  expect(diskOf({})).toBeNull();
});

test.each([
  ['1Gi', 1],
  ['1536Mi', 1],
  ['2147483648', 2],
  ['3G', 2],
  ['1.5Ti', 1536],
  ['1e10', 9],
  ['a lot', null],
  ['1Xi', null],
  [undefined, null],
])('%s is %s GB', (quantity, sizeGB) => {
  expect(gbOfQuantity(quantity)).toBe(sizeGB);
});
