/**
 * Templates of empty disks: made once per size, complete or made again, few, and without leftovers.
 * Needs root.
 */
import { randomUUID } from 'node:crypto';
import { access, mkdir, mkdtemp, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { longTest } from '../../fixtures/long-test.ts';
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { mountNewImage, listMountPoints } from '../../../src/storage/image-file/image-mounts.ts';
import { makeFileSystem } from '../../../src/storage/image-file/xfs.ts';
import { makeStorageFixture, type HostStorageFixture } from '../../conformance/host-storage.ts';
import { expectFault, run, soon, volume } from '../../conformance/storage.ts';
import { DROP_OTHER_MOUNTS, mountXfs } from './file-systems.ts';

const CACHED_TEMPLATES = 16;

const make: Parameters<typeof makeStorageFixture>[0] = async (at) => makeImageFileStorage({ ...at, copies: 'live' });
const makeFixture = (): Promise<HostStorageFixture> => makeStorageFixture(make);
const again = (root: string): Storage => makeImageFileStorage({ root, installation: 'ours', copies: 'live' });
const data = (): DiskId => ({ kind: 'data', id: randomUUID() });

/** A pool path on a file system of its own. */
async function makeOwnFixture(sizeGB: number): Promise<HostStorageFixture & { base: string }> {
  const { folder: base, remove } = await mountXfs(sizeGB);
  onTestFinished(remove);
  return { ...(await makeStorageFixture(make, base)), base };
}

const imageOf = (root: string, { kind, id }: DiskId): string => join(root, kind, id, 'image');
const templatesOf = async (root: string): Promise<string[]> => (await readdir(join(root, '.empty'))).toSorted();

async function withFile<T>(path: string, work: (file: Awaited<ReturnType<typeof open>>) => Promise<T>): Promise<T> {
  const file = await open(path, 'r+');
  try {
    return await work(file);
  } finally {
    await file.close();
  }
}

/** File system UUID of an image: shows which mkfs made it. */
const makingOf = (image: string): Promise<string> =>
  withFile(image, async (file) => (await file.read(Buffer.alloc(16), 0, 16, 32)).buffer.toString('hex'));

/** Makes a disk now, mounts it, writes to it and checks its size. */
async function expectGood(storage: Storage, sizeGB: number, disk = data()): Promise<DiskId> {
  await storage.create(disk, sizeGB, soon());
  const folder = await storage.mount(disk);
  expect(await readdir(folder)).toEqual([]);
  await writeFile(join(folder, 'file'), 'x', { flush: true });
  expect(await storage.observe(disk)).toEqual({ kind: 'present', sizeGB });
  return disk;
}

async function expectNothingMounted(root: string): Promise<void> {
  expect([...(await listMountPoints())].filter((point) => point.startsWith(root))).toEqual([]);
  // The loop device goes shortly after its mount.
  await expect.poll(async () => (await run('losetup', ['-a'])).stdout).not.toContain(root);
}

test('makes one file system per size, also for concurrent requests and after a restart; templates are not listed as disks', async () => {
  const { storage, root } = await makeFixture();
  const disks = [volume(), data(), volume(), data()];
  await Promise.all(disks.map((disk) => storage.create(disk, 2, soon())));
  const later = volume();
  await again(root).create(later, 2, soon());
  const made = await Promise.all([...disks, later].map((disk) => makingOf(imageOf(root, disk))));
  expect(new Set(made).size).toBe(1);
  const other = volume();
  await storage.create(other, 3, soon());
  expect(await makingOf(imageOf(root, other))).not.toBe(made[0]);
  expect(await templatesOf(root)).toEqual(['v2-2GB', 'v2-3GB']);
  for (const disk of [...disks, later, other]) await storage.destroy(disk);
  expect(await storage.listOwned()).toEqual([]);
  expect(await storage.listMounted()).toEqual([]);
  await expectNothingMounted(root);
});

longTest.each<[string, (template: string) => Promise<unknown>]>([
  ['missing', (template) => rm(template)],
  ['empty', (template) => truncate(template, 0)],
  ['cut off', async (template) => truncate(template, Math.floor((await stat(template)).size / 2))],
  // Damages the superblock, without which nothing mounts.
  ['damaged', (template) => withFile(template, (file) => file.write('damage', 400))],
  ['damaged where it says what it is', (template) => withFile(template, (file) => file.write('9999', 20))],
])('a %s template is replaced, and no disk is made from it', async (_, damage) => {
  const { storage, root } = await makeFixture();
  const before = await expectGood(storage, 1);
  const template = join(root, '.empty', 'v2-1GB');
  await damage(template);
  const made = await makingOf(imageOf(root, await expectGood(storage, 1)));
  expect(made).not.toBe(await makingOf(imageOf(root, before)));
  expect(await makingOf(imageOf(root, await expectGood(storage, 1)))).toBe(made);
});

/** Keeps copies of the mounts under `$1`, and says so. */
const HOLD_MOUNTS = `${DROP_OTHER_MOUNTS}
echo $$ >"$HOLD/new"
mv "$HOLD/new" "$HOLD/pid"
exec sleep 600`;

/**
 * A `umount` that first lets another mount namespace copy the mounts, once, as any `unshare` of the
 * host may just then.
 */
const HELD_UMOUNT = `#!/bin/sh
if mkdir "$HOLD/once" 2>/dev/null; then
  unshare --mount --propagation private sh "$HOLD/hold-mounts" "$ROOT" </dev/null >/dev/null 2>&1 &
  until [ -e "$HOLD/pid" ]; do sleep 0.02; done
fi
exec "$REAL" "$@"`;

async function holdNextUnmount(root: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-hold-'));
  const { stdout: real } = await run('sh', ['-c', 'command -v umount']);
  await writeFile(join(folder, 'hold-mounts'), HOLD_MOUNTS);
  await writeFile(join(folder, 'umount'), HELD_UMOUNT, { mode: 0o755 });
  const { PATH = '' } = process.env;
  Object.assign(process.env, { PATH: `${folder}:${PATH}`, HOLD: folder, ROOT: root, REAL: real.trim() });
  onTestFinished(async () => {
    process.env['PATH'] = PATH;
    process.kill(Number(await readFile(join(folder, 'pid'), 'utf8')));
    await rm(folder, { recursive: true });
  });
}

longTest('no template is read from a file system that another mount namespace keeps mounted', async () => {
  const { storage, root } = await makeFixture();
  await holdNextUnmount(root);
  await expectFault(storage.create(volume(), 1, soon()), 'busy');
  await expectGood(storage, 1);
});

longTest('removes partial templates of dead servers at the next disk, and nothing else', async () => {
  const { root } = await makeFixture();
  const empty = join(root, '.empty');
  for (const name of ['.new-v2-2GB', '.new-v0-7GB']) {
    const begun = join(empty, name);
    await mkdir(join(begun, 'mount'), { recursive: true });
    await makeFileSystem(join(begun, 'image'), 1);
    await mountNewImage(join(begun, 'image'), join(begun, 'mount'), ['nouuid']);
  }
  for (const name of ['v0-20GB', 'notes']) await writeFile(join(empty, name), 'x');
  const next = again(root);
  const disk = await expectGood(next, 1);
  expect(await templatesOf(root)).toEqual(['notes', 'v2-1GB']);
  await next.destroy(disk);
  await expectNothingMounted(root);
  await next.destroy(await expectGood(next, 2));
});

longTest('keeps the templates last used, and makes disks of every size', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  const use = async (sizeGB: number): Promise<void> => {
    await storage.create(disk, sizeGB, soon());
    await storage.destroy(disk);
  };
  for (let sizeGB = 1; sizeGB <= CACHED_TEMPLATES; sizeGB++) await use(sizeGB);
  await use(1);
  for (const sizeGB of [100, 5_000]) await use(sizeGB);
  const names = await templatesOf(root);
  expect(names).toHaveLength(CACHED_TEMPLATES);
  expect(names).toEqual(expect.arrayContaining(['v2-1GB', 'v2-4GB', 'v2-100GB', 'v2-5000GB']));
  const { stdout } = await run('du', ['-sk', join(root, '.empty')]);
  expect(Number.parseInt(stdout)).toBeLessThan(40_000);
});

longTest(
  'refuses on a full host, with and without a template, leaves nothing, and makes disks once there is space',
  async () => {
    const { storage, root, base } = await makeOwnFixture(1);
    const fill = join(base, 'fill');
    /** Leaves space for folders, and none for an image. */
    const takeNearlyAll = async (): Promise<void> => {
      await run('dd', ['if=/dev/zero', `of=${fill}`, 'bs=64k', 'conv=fsync']).catch(() => {});
      await truncate(fill, (await stat(fill)).size - 1024 ** 2);
    };
    const expectRefused = async (): Promise<void> => {
      for (const disk of [volume(), data()]) {
        await expectFault(storage.create(disk, 1, soon()), 'full');
        expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      }
      expect(await storage.listOwned()).toEqual([]);
      await expectNothingMounted(root);
    };
    await takeNearlyAll();
    await expectRefused();
    await expect(access(join(root, '.empty'))).rejects.toThrow('ENOENT');
    await rm(fill);
    const disk = volume();
    await storage.create(disk, 1, soon());
    await storage.destroy(disk);
    await takeNearlyAll();
    await expectRefused();
    // No space even for a folder.
    await run('dd', ['if=/dev/zero', `of=${fill}`, 'bs=4k', 'oflag=append', 'conv=notrunc,fsync']).catch(() => {});
    await expectRefused();
    await rm(fill);
    await storage.destroy(await expectGood(storage, 1));
    await expectNothingMounted(root);
  },
);

longTest('a disk survives a power cut, and shares no block with another', async () => {
  const { storage, root, base } = await makeOwnFixture(4);
  const disks = [volume(), data(), volume(), data()];
  for (const disk of disks) await storage.create(disk, 1, soon());
  for (const disk of disks) {
    const { stdout } = await run('filefrag', ['-v', imageOf(root, disk)]);
    expect(stdout).not.toMatch(/shared/);
  }
  // Shuts the host's file system down as it is: unwritten data is lost.
  await run('xfs_io', ['-x', '-c', 'shutdown', base]);
  for (const disk of disks) await run('umount', [join(root, disk.kind, disk.id, 'mount')]).catch(() => {});
  await expect.poll(async () => (await run('losetup', ['-a'])).stdout).not.toContain(root);
  await run('umount', [base]);
  await run('mount', ['-o', 'loop', join(dirname(base), 'image'), base]);
  const after = again(root);
  for (const disk of disks) {
    await expectGood(after, 1, disk);
    await after.destroy(disk);
  }
});
