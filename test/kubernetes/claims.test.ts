/** Disks as claims of a real Kubernetes, whose driver grows volumes online and has snapshots. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { DiskId } from '../../src/domain/storage/disk.ts';
import { resources } from '../../src/kubernetes/api-resources.ts';
import { openCluster, type Cluster } from '../../src/kubernetes/cluster.ts';
import { claimManifest, snapshotManifest } from '../../src/storage/claims/claim-manifests.ts';
import { copySourceName, filesPodName, objectName } from '../../src/storage/claims/claim-names.ts';
import { makeClaimStorage, type ClaimOptions } from '../../src/storage/claims/claims.ts';
import type { DiskFiles, Upload } from '../../src/storage/files.ts';
import { describeStorage, expectFault, soon, volume } from '../conformance/storage.ts';
import { applets, image, makeClaimFixture, type ClaimFixture } from './claim-fixture.ts';
import { startCluster, type Cluster as TestCluster } from './cluster/cluster.ts';
import { busyboxArchive } from './cluster/image-archive.ts';

const ROLE = path.join(import.meta.dirname, '../../deploy/kubernetes/rbac.yaml');

let machine: TestCluster;
let cluster: Cluster;
/** With the rights of the role alone. */
let berth: Cluster;

beforeAll(async () => {
  machine = await startCluster({ addons: ['storage'] });
  await machine.importImage(await busyboxArchive(image, applets));
  const { apiUrl, ca, token } = machine;
  cluster = await openCluster({ credentials: { kind: 'token', apiUrl, ca, token }, namespace: 'default' });
  const role = (await readFile(ROLE, 'utf8')).replaceAll(/namespace: berth(-instances)?$/gm, 'namespace: default');
  await machine.kubectl(['apply', '-f', '-'], role);
  const ofRole = (await machine.kubectl(['create', 'token', 'berth', '-n', 'default'])).trim();
  berth = await openCluster({ credentials: { kind: 'token', apiUrl, ca, token: ofRole }, namespace: 'default' });
});

const fixtureOf = (more: Partial<ClaimOptions> = {}): ClaimFixture =>
  makeClaimFixture(cluster, { cluster: berth, ...more });

afterAll(async () => {
  cluster?.stop();
  berth?.stop();
  await machine?.stop();
});

describeStorage('claims', async () => {
  const fixture = fixtureOf();
  // Capabilities are known from the first call on.
  await fixture.storage.space();
  return fixture;
});

const podOf = (disk: DiskId) => cluster.get(resources.pods, filesPodName(disk), soon());

async function* of(text: string): AsyncGenerator<Uint8Array, void> {
  yield Buffer.from(text);
}

const upload = (source: Upload['source'], more: Partial<Upload> = {}): Upload => ({
  source,
  sizeBytes: null,
  maxBytes: 2 ** 40,
  onlyNew: false,
  ...more,
});

async function listed(files: DiskFiles): Promise<string[]> {
  const { entries } = await files.list('', { limit: 100, after: null }, soon());
  return entries.map(({ name, kind }) => `${kind} ${name}`);
}

async function withDisk(fixture: ClaimFixture): Promise<DiskId> {
  const disk = volume();
  await fixture.storage.create(disk, 1, soon());
  return disk;
}

describe('a claim', () => {
  test('is not removed while a Pod mounts it', async () => {
    const fixture = fixtureOf();
    const disk = await withDisk(fixture);
    await fixture.inside(disk, 'echo kept >note');
    await expectFault(fixture.bare.destroy(disk), 'busy');
    expect(await fixture.inside(disk, 'cat note')).toBe('kept\n');
    await fixture.leave(disk);
    await fixture.bare.destroy(disk);
    expect(await cluster.get(resources.claims, objectName(disk), soon())).toBeNull();
  });

  test('stays as it is when it is of others: neither used, listed nor removed', async () => {
    const ours = fixtureOf();
    const theirs = fixtureOf();
    const otherPool = makeClaimStorage({ ...ours.options, pool: 'filesystem' });
    const disk = await withDisk(theirs);
    for (const storage of [ours.storage, otherPool]) {
      await expect(storage.create(disk, 1, soon())).rejects.toThrow(/not of this installation/);
      await expect(storage.mount(disk)).rejects.toThrow(/not of this installation/);
      expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([]);
      await storage.destroy(disk);
    }
    expect(await theirs.storage.observe(disk)).toMatchObject({ kind: 'present' });
  });

  test('has a usage while a Pod mounts it, without rights over nodes', async () => {
    const { storage, inside, leave } = fixtureOf();
    const disk = volume();
    await storage.create(disk, 1, soon());
    expect(await storage.usage(disk, soon())).toBeNull();
    await inside(disk, 'head -c 300000000 /dev/urandom >large && sync');
    await expect.poll(() => storage.usage(disk, soon()), { timeout: 60_000, interval: 1_000 }).toBeGreaterThan(300e6);
    expect(await storage.usage(disk, soon())).toBeLessThan(400e6);
    await leave(disk);
    await expect.poll(() => storage.usage(disk, soon()), { timeout: 10_000 }).toBeNull();
  });

  test('that is being removed is observed, listed, and not used; its removal ends', async () => {
    const fixture = fixtureOf();
    const { storage } = fixture;
    const disk = await withDisk(fixture);
    const name = objectName(disk);
    await cluster.patch(resources.claims, name, { metadata: { finalizers: ['berth.test/hold'] } }, soon());
    await cluster.remove(resources.claims, name, soon());
    await expect.poll(() => storage.observe(disk)).toEqual({ kind: 'present', sizeGB: null });
    expect(await storage.listOwned()).toEqual([disk]);
    await expectFault(storage.mount(disk), 'notFound');
    await expectFault(storage.create(disk, 1, soon()), 'busy');
    const removed = storage.destroy(disk);
    await cluster.patch(resources.claims, name, { metadata: { finalizers: null } }, soon());
    await removed;
    expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
  });

  test('is absent, listed, and completed or removed if a crash cut its copy off', async () => {
    const fixture = fixtureOf();
    const { storage, options, inside } = fixture;
    const disk = await withDisk(fixture);
    await inside(disk, 'echo first >note && sync');
    const [copy, other] = [volume(), volume()];
    for (const one of [copy, other]) {
      const name = copySourceName(one);
      const manifest = snapshotManifest(options, one, { name, snapshotClass: 'disk', of: objectName(disk) });
      await cluster.create(resources.snapshots, manifest, soon());
      await cluster.create(resources.claims, claimManifest(options, one, 1, name), soon());
      await expect.poll(async () => (await storage.listOwned()).length).toBeGreaterThan(1);
      expect(await storage.observe(one)).toEqual({ kind: 'absent' });
      await expectFault(storage.mount(one), 'notFound');
    }
    await storage.create(copy, 1, soon(), disk);
    expect(await inside(copy, 'cat note')).toBe('first\n');
    await storage.destroy(other);
    expect((await storage.listOwned()).length).toBe(2);
    expect(await cluster.list(resources.snapshots, soon())).toEqual([]);
  });
});

describe('files of a claim', () => {
  test('are served by a Pod that ends when it is idle', async () => {
    let nowMs = 0;
    const fixture = fixtureOf({ filesIdleMs: 60_000, elapsed: () => nowMs });
    const { storage } = fixture;
    const disk = await withDisk(fixture);
    const files = await storage.files(disk);
    expect(await podOf(disk)).toBeNull();
    await files.makeFolder('a', soon());
    nowMs += 59_000;
    expect(await listed(files)).toEqual(['folder a']);
    nowMs += 59_000;
    expect(await storage.listMounted()).toEqual([]);
    nowMs += 2_000;
    await expect.poll(() => storage.listMounted()).toEqual([disk]);
    await storage.unmount(disk);
    await expect.poll(() => podOf(disk), { timeout: 20_000 }).toBeNull();
    expect(await listed(files)).toEqual(['folder a']);
  });

  test('are served on by a Pod that ended by itself, which another process removes', async () => {
    const fixture = fixtureOf({ filesIdleMs: 500 });
    const disk = await withDisk(fixture);
    await (await fixture.storage.files(disk)).makeFolder('a', soon());
    await expect.poll(async () => (await podOf(disk))?.status?.phase, { timeout: 30_000 }).toBe('Succeeded');
    const later = makeClaimStorage(fixture.options);
    expect(await later.listMounted()).toEqual([disk]);
    expect(await listed(await later.files(disk))).toEqual(['folder a']);
    expect((await podOf(disk))?.status?.phase).toBe('Running');
  });

  test('are served while an instance mounts the claim, without the uploads that a crash cut off', async () => {
    const { storage, inside } = fixtureOf();
    const disk = volume();
    await storage.create(disk, 1, soon());
    await inside(disk, 'echo half >.berth-upload.1 && ln -s /etc/passwd link && echo hers >hers');
    const files = await storage.files(disk);
    expect(await listed(files)).toEqual(['file hers', 'link link']);
    await files.write('mine', upload(of('mine')), soon());
    await expect(files.read('link', async () => {}, soon())).rejects.toMatchObject({ kind: 'wrongKind' });
    expect(await inside(disk, 'ls -A | tr "\\n" " " && cat mine')).toBe('hers link mine mine');
  });

  test('are refused past the size of the claim, and the disk keeps the rest', async () => {
    const fixture = fixtureOf();
    const disk = await withDisk(fixture);
    const files = await fixture.storage.files(disk);
    async function* endless(): AsyncGenerator<Uint8Array, void> {
      for (;;) yield Buffer.alloc(2 ** 20);
    }
    await fixture.inside(disk, 'head -c 900000000 /dev/zero >hers && sync');
    await files.write('small', upload(of('small')), soon());
    await expect(files.write('large', upload(of('x'), { sizeBytes: 2 ** 31 }), soon())).rejects.toMatchObject({
      kind: 'full',
    });
    await expect(files.write('large', upload(endless()), soon())).rejects.toMatchObject({
      kind: 'full',
      message: 'the volume is full',
    });
    expect(await listed(files)).toEqual(['file hers', 'file small']);
    await files.write('second', upload(of('second')), soon());
  });

  test('end with their signal', async () => {
    const fixture = fixtureOf();
    const disk = await withDisk(fixture);
    const files = await fixture.storage.files(disk);
    const calling = new AbortController();
    async function* cut(): AsyncGenerator<Uint8Array, void> {
      yield Buffer.alloc(1000);
      calling.abort(new Error('the volume is deleted'));
      calling.signal.throwIfAborted();
    }
    await expect(files.write('f', upload(cut()), calling.signal)).rejects.toThrow('the volume is deleted');
    expect(await listed(files)).toEqual([]);
  });
});

describe('a limit of the cluster', () => {
  test('is a capability with its reason, and refused', async () => {
    const { provisioner } = (await cluster.get(resources.storageClasses, 'disk', soon())) ?? { provisioner: '' };
    const fixed = { metadata: { name: 'fixed' }, provisioner, volumeBindingMode: 'Immediate' };
    await cluster.create(resources.storageClasses, fixed, soon());
    onTestFinished(async () => void (await cluster.remove(resources.storageClasses, 'fixed', soon())));
    const { storage } = fixtureOf({ storageClass: 'fixed', snapshotClass: 'none' });
    const disk = volume();
    await storage.create(disk, 1, soon());
    expect(await cluster.get(resources.claims, objectName(disk), soon())).toMatchObject({ status: { phase: 'Bound' } });
    expect(storage.capabilities()).toMatchObject({
      whyNoGrowth: expect.stringContaining('the storage class fixed does not let volumes grow'),
      whyNoCopies: expect.stringContaining('no snapshot class none of the driver'),
    });
    await expectFault(storage.grow(disk, 2), 'unsupported');
    await expectFault(storage.create(volume(), 1, soon(), disk), 'unsupported');
    await expectFault(storage.create({ kind: 'snapshot', id: 'x' }, 1, soon(), disk), 'unsupported');
    await storage.grow(disk, 1);
    expect(await storage.listOwned()).toEqual([disk]);
  });

  test('is full by a quota', async () => {
    const quota = { metadata: { name: 'small' }, spec: { hard: { 'requests.storage': '3Gi' } } };
    await cluster.create(resources.quotas, quota, soon());
    onTestFinished(async () => void (await cluster.remove(resources.quotas, 'small', soon())));
    const isCounted = async () => (await cluster.get(resources.quotas, 'small', soon()))?.status?.used !== undefined;
    await expect.poll(isCounted, { timeout: 20_000 }).toBe(true);
    const { storage } = fixtureOf();
    const disk = volume();
    await storage.create(disk, 2, soon());
    await expectFault(storage.create(volume(), 2, soon()), 'full');
    await expectFault(storage.grow(disk, 4), 'full');
    expect(await storage.listOwned()).toEqual([disk]);
  });

  test('names the storage classes that there are instead of a missing one', async () => {
    const storage = makeClaimStorage({ ...fixtureOf().options, storageClass: 'missing' });
    await expect(storage.space()).rejects.toThrow('the cluster has no storage class missing; it has disk');
    await expect(storage.create(volume(), 1, soon())).rejects.toThrow('no storage class missing');
  });

  test('makes disks unknown while the cluster does not answer, and verbs repeatable', async () => {
    const credentials = { kind: 'token', apiUrl: 'https://127.0.0.1:1', ca: machine.ca, token: 'none' } as const;
    const away = await openCluster({ credentials, namespace: 'default' });
    onTestFinished(() => away.stop());
    const storage = makeClaimStorage({ ...fixtureOf().options, cluster: away });
    expect(await storage.observe(volume())).toMatchObject({
      kind: 'unknown',
      reason: expect.stringContaining('does not answer'),
    });
    for (const call of [storage.create(volume(), 1, soon()), storage.mount(volume()), storage.destroy(volume())])
      await expectFault(call, 'away');
    await expectFault(storage.listOwned(), 'away');
    await expectFault(storage.space(), 'away');
  });
});
