/**
 * Storages in a folder of this host: the suite of all storages, and what they owe to the host. The
 * remains of interrupted verbs are planted in the layout of `src/storage/layout.ts`.
 */
import { lstat, mkdir, mkdtemp, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Storage } from '../../src/storage/contract.ts';
import { prepareRoot } from '../../src/storage/layout.ts';
import { describeStorage, expectFault, invalidIds, run, soon, used, volume, type StorageFixture } from './storage.ts';

export interface HostStorageFixture extends StorageFixture {
  root: string;
  outside: string;
}

type Make = (at: { root: string; installation: string }) => Promise<Storage>;

/** `base`: parent folder of the root. */
export async function makeStorageFixture(make: Make, base = tmpdir()): Promise<HostStorageFixture> {
  const folder = await mkdtemp(join(base, 'berth-disks-'));
  const root = join(folder, 'disks');
  const outside = join(folder, 'outside');
  await Promise.all([mkdir(root), mkdir(outside)]);
  await prepareRoot({ root, installation: 'ours' });
  const storage = await make({ root, installation: 'ours' });
  onTestFinished(async () => {
    for (const disk of await storage.listOwned().catch(() => [])) await storage.destroy(disk);
    await rm(folder, { recursive: true, force: true });
  });
  return {
    storage,
    root,
    outside,
    inside: async (disk, script) =>
      (await run('sh', ['-c', script], { cwd: await storage.mount(disk), maxBuffer: 2 ** 26 })).stdout,
  };
}

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

export function describeHostStorage(name: string, make: Make, base: () => string = tmpdir): void {
  const makeFixture = (): Promise<HostStorageFixture> => makeStorageFixture(make, base());
  describeStorage(name, makeFixture);

  describe(`a storage in a folder of the host: ${name}`, () => {
    test("other users of the host can't reach an instance's files", async () => {
      const { storage, root } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      expect((await stat(join(root, disk.kind, disk.id))).mode & 0o077).toBe(0);
      await storage.destroy(disk);
      expect(await readdir(join(root, disk.kind))).toEqual([]);
    });

    test.each(invalidIds)('an invalid id creates nothing: %j', async (id) => {
      const { storage, root } = await makeFixture();
      await expect(storage.create({ kind: 'volume', id }, 1, soon())).rejects.toThrow(/not the id of/);
      expect(await readdir(root)).toEqual(['.berth-installation']);
    });

    test('a start does not write its marker again, which a full disk would leave empty', async () => {
      const { root } = await makeFixture();
      const marker = join(root, '.berth-installation');
      const { ino, mtimeMs } = await stat(marker);
      await prepareRoot({ root, installation: 'ours' });
      expect(await stat(marker)).toMatchObject({ ino, mtimeMs });
      expect(await readdir(root)).toEqual(['.berth-installation']);
    });

    test('measuring, copying and destroying follow no symbolic link inside a disk', async () => {
      const { storage, outside } = await makeFixture();
      await writeFile(join(outside, 'large'), Buffer.alloc(4 * 1024 ** 2, 1));
      const disk = volume();
      const copy = volume();
      await storage.create(disk, 1, soon());
      const folder = await storage.mount(disk);
      await symlink(outside, join(folder, 'folder'));
      await symlink(join(outside, 'large'), join(folder, 'file'));
      await symlink('/', join(folder, 'all'));
      expect(await used(storage, disk)).toBeLessThan(1024 ** 2);
      await storage.create(copy, 1, soon(), disk);
      expect(await used(storage, copy)).toBeLessThan(1024 ** 2);
      for (const one of [disk, copy]) await storage.destroy(one);
      expect((await stat(join(outside, 'large'))).size).toBe(4 * 1024 ** 2);
    });

    test('a symbolic link at the path of a disk is absent, and its target stays', async () => {
      const { storage, root, outside } = await makeFixture();
      const disk = volume();
      await mkdir(join(root, 'volume'));
      await symlink(outside, join(root, 'volume', disk.id));
      expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      await expectFault(storage.mount(disk), 'notFound');
      await storage.destroy(disk);
      expect(await isThere(outside)).toBe(true);
    });

    test('an interrupted destroy is observed, listed and completed', async () => {
      const { storage, root } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      // Remains of a process that died during a removal.
      await rename(join(root, 'volume', disk.id), join(root, 'volume', `.gone-${disk.id}`));
      expect(await storage.observe(disk)).toMatchObject({ kind: 'present' });
      await expectFault(storage.mount(disk), 'notFound');
      expect(await storage.listOwned()).toEqual([disk]);
      await storage.destroy(disk);
      expect(await readdir(join(root, 'volume'))).toEqual([]);
      expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
    });

    test('an interrupted create is absent, listed, and repeated from the start', async () => {
      const { storage, root } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      await rename(join(root, 'volume', disk.id), join(root, 'volume', `.new-${disk.id}`));
      await writeFile(join(root, 'volume', `.new-${disk.id}`, 'half'), 'x');
      expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([disk]);
      await storage.create(disk, 1, soon());
      expect(await readdir(await storage.mount(disk))).toEqual([]);
      expect(await readdir(join(root, 'volume'))).toEqual([disk.id]);
    });

    test('without its root every disk is unknown, and creates are refused', async () => {
      const { storage, root } = await makeFixture();
      const disk = volume();
      await rm(root, { recursive: true });
      expect(await storage.observe(disk)).toMatchObject({ kind: 'unknown' });
      await expect(storage.create(disk, 1, soon())).rejects.toThrow(/mount their file system there/);
      await expect(storage.space()).rejects.toThrow(/ENOENT/);
      expect(await storage.listOwned()).toEqual([]);
      await writeFile(root, 'a file');
      expect(await storage.observe(disk)).toMatchObject({ kind: 'unknown' });
      await rm(root);
      await mkdir(root);
      await prepareRoot({ root, installation: 'others' });
      expect(await storage.observe(disk)).toMatchObject({ kind: 'unknown' });
      await expect(storage.create(disk, 1, soon())).rejects.toThrow(/another installation, others/);
    });
  });
}
