/** Conformance suite of storages: `src/storage/contract.ts`. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import {
  chmod,
  link,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { BYTES_PER_GB, type DiskId } from '../../src/domain/disk.ts';
import { StorageFault, type Storage } from '../../src/storage/contract.ts';
import type { DiskFiles, Upload } from '../../src/storage/files.ts';
import { prepareRoot } from '../../src/storage/layout.ts';

export const run = promisify(execFile);

export interface StorageFixture {
  storage: Storage;
  root: string;
  outside: string;
}

type Make = (at: { root: string; installation: string }) => Promise<Storage>;

/** `base`: parent folder of the root. */
export async function makeStorageFixture(make: Make, base = tmpdir()): Promise<StorageFixture> {
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
  return { storage, root, outside };
}

const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

export const volume = (id: string = randomUUID()): DiskId => ({ kind: 'volume', id });
export const soon = (): AbortSignal => AbortSignal.timeout(60_000);
const hashOf = async (file: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex');

export const used = async (storage: Storage, disk: DiskId): Promise<number> => {
  const bytes = await storage.usage(disk, soon());
  if (bytes === null) throw new Error('the usage is unknown');
  return bytes;
};

async function* pieces(...all: Uint8Array[]): AsyncGenerator<Uint8Array, void> {
  yield* all;
}

const uploadOf = (bytes: Uint8Array): Upload => ({
  source: pieces(bytes),
  sizeBytes: bytes.length,
  maxBytes: BYTES_PER_GB,
  onlyNew: false,
});

const readWhole = (files: DiskFiles, path: string): Promise<Buffer> =>
  files.read(path, async ({ bytes, sizeBytes }) => Buffer.concat(await Array.fromAsync(bytes(0, sizeBytes))), soon());

export async function expectFault(call: Promise<unknown>, kind: StorageFault['kind']): Promise<void> {
  const thrown: unknown = await call.then(
    () => expect.fail('should have been refused'),
    (error: unknown) => error,
  );
  expect(thrown).toBeInstanceOf(StorageFault);
  expect(thrown).toMatchObject({ kind });
}

export function describeStorage(name: string, make: Make, base: () => string = tmpdir): void {
  const makeFixture = (): Promise<StorageFixture> => makeStorageFixture(make, base());

  describe(`the storage contract: ${name}`, () => {
    test('creates, mounts, observes, lists, unmounts and destroys a disk; every verb is idempotent', async () => {
      const { storage, root } = await makeFixture();
      const disks: DiskId[] = [
        volume(),
        { kind: 'snapshot', id: randomUUID() },
        { kind: 'data', id: `notebook-${randomUUID()}` },
        { kind: 'docker', id: `notebook-${randomUUID()}` },
        { kind: 'shared', id: `${randomUUID()}/${randomUUID()}` },
      ];
      for (const disk of disks) {
        expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
        await expectFault(storage.mount(disk), 'notFound');
        await expectFault(storage.files(disk), 'notFound');
        await expectFault(storage.grow(disk, 2), 'notFound');
        await storage.destroy(disk);
        await storage.create(disk, 1, soon());
        const folder = await storage.mount(disk);
        // Other host users must not reach an instance's files.
        expect((await stat(join(root, disk.kind, disk.id))).mode & 0o077).toBe(0);
        await writeFile(join(folder, 'kept'), 'kept');
        await storage.create(disk, 1, soon());
        expect(await storage.mount(disk)).toBe(folder);
        expect(await readdir(folder)).toEqual(['kept']);
        const { sizeLimit } = storage.capabilities();
        expect(await storage.observe(disk)).toEqual({ kind: 'present', sizeGB: sizeLimit === 'hard' ? 1 : null });
      }
      const listed = (await storage.listOwned()).toSorted((a, b) => a.kind.localeCompare(b.kind));
      expect(listed).toEqual(disks.toSorted((a, b) => a.kind.localeCompare(b.kind)));
      for (const disk of disks) {
        await storage.unmount(disk);
        await storage.unmount(disk);
        await storage.destroy(disk);
        await storage.destroy(disk);
        expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      }
      expect(await storage.listOwned()).toEqual([]);
      expect(await storage.listMounted()).toEqual([]);
    });

    test.each(['', '.', '..', '../x', 'a/../b', '/etc', 'a/b', 'a//b', '.hidden', 'a\0b', '-rf', 'a\nb', '~', 'ä'])(
      'every verb refuses an invalid id: %j',
      async (id) => {
        const { storage, root } = await makeFixture();
        const verbs = [
          (disk: DiskId) => storage.create(disk, 1, soon()),
          (disk: DiskId) => storage.grow(disk, 1),
          (disk: DiskId) => storage.mount(disk),
          (disk: DiskId) => storage.files(disk),
          (disk: DiskId) => storage.unmount(disk),
          async (disk: DiskId) => storage.observe(disk),
          async (disk: DiskId) => storage.usage(disk, soon()),
          (disk: DiskId) => storage.destroy(disk),
        ];
        for (const kind of ['volume', 'data', 'snapshot', 'docker'] as const)
          for (const verb of verbs) await expect(verb({ kind, id })).rejects.toThrow(/not the id of/);
        const alone: DiskId = { kind: 'shared', id: 'alone' };
        for (const verb of verbs) await expect(verb(alone)).rejects.toThrow(/not the id of/);
        if (id !== 'a/b')
          for (const verb of verbs)
            await expect(verb({ kind: 'shared', id: `x/${id}` })).rejects.toThrow(/not the id of/);
        expect(await readdir(root)).toEqual(['.berth-installation']);
      },
    );

    test('largestEntries reports two levels, by printable names, and ends with its signal', async () => {
      const { storage } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      const folder = await storage.mount(disk);
      await mkdir(join(folder, 'runs/one/deep'), { recursive: true });
      await mkdir(join(folder, 'many'));
      await writeFile(join(folder, 'runs/one/deep/file'), Buffer.alloc(4_000_000, 1));
      await writeFile(join(folder, 'many/one'), Buffer.alloc(500_000, 1));
      await writeFile(join(folder, 'many/two'), Buffer.alloc(600_000, 1));
      await writeFile(join(folder, 'a\n\u001b[31mname'), Buffer.alloc(2_000_000, 1), { flush: true });
      const found = (await storage.largestEntries(disk, soon())) ?? [];
      expect(found.map(({ path }) => path)).toEqual(['runs/one', 'a??[31mname', 'many', 'many/two', 'many/one']);
      expect(Math.abs((found[0]?.bytes ?? 0) - 4_000_000)).toBeLessThan(100_000);
      await expect(storage.largestEntries(disk, AbortSignal.abort(new Error('called off')))).rejects.toThrow(
        'called off',
      );
      await storage.destroy(disk);
      expect(await storage.largestEntries(disk, soon())).toBeNull();
    });

    test('files survive an unmount, and the usage stays known meanwhile', async () => {
      const { storage } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      expect(await used(storage, disk)).toBeLessThan(100_000);
      const folder = await storage.mount(disk);
      await writeFile(join(folder, 'file'), randomBytes(8 * 1024 ** 2), { flush: true });
      const hash = await hashOf(join(folder, 'file'));
      const bytes = await used(storage, disk);
      expect(bytes).toBeGreaterThanOrEqual(8 * 1024 ** 2);
      expect(bytes).toBeLessThan(9 * 1024 ** 2);
      await storage.unmount(disk);
      expect(Math.abs((await used(storage, disk)) - bytes)).toBeLessThan(200_000);
      expect(await hashOf(join(await storage.mount(disk), 'file'))).toBe(hash);
    });

    test('files are reached without an instance, and survive an unmount', async () => {
      const { storage } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      const before = await storage.files(disk);
      const bytes = randomBytes(300_000);
      await before.makeFolder('a/-b\n', soon());
      await before.write('a/-b\n/c d', uploadOf(bytes), soon());
      await storage.unmount(disk);
      const files = await storage.files(disk);
      expect(await readWhole(files, 'a/-b\n/c d')).toEqual(bytes);
      const { entries } = await files.list('a', { limit: 10, after: null }, soon());
      expect(entries).toMatchObject([{ name: '-b\n', kind: 'folder', reachable: true }]);
      await files.remove('a', { recursive: true }, soon());
      expect((await files.list('', { limit: 10, after: null }, soon())).entries).toEqual([]);
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

    test('a copy is exact, independent, and may be larger; copying an absent disk is refused and creates nothing', async () => {
      const { storage } = await makeFixture();
      const [disk, copy, none] = [volume(), volume(), volume()];
      await storage.create(disk, 1, soon());
      const folder = await storage.mount(disk);
      await mkdir(join(folder, 'inner'));
      await writeFile(join(folder, 'inner', 'file'), randomBytes(3_000_000), { mode: 0o640, flush: true });
      await link(join(folder, 'inner', 'file'), join(folder, 'twin'));
      await symlink('inner/file', join(folder, 'soft'));
      await chmod(join(folder, 'inner'), 0o2750);
      const hole = await open(join(folder, 'hole'), 'w');
      await hole.truncate(500 * 1024 ** 2);
      await hole.close();
      await storage.create(copy, 2, soon(), disk);
      const copied = await storage.mount(copy);
      expect((await readdir(copied)).toSorted()).toEqual(['hole', 'inner', 'soft', 'twin']);
      expect(await hashOf(join(copied, 'soft'))).toBe(await hashOf(join(folder, 'soft')));
      expect((await stat(join(copied, 'twin'))).ino).toBe((await stat(join(copied, 'inner', 'file'))).ino);
      expect((await stat(join(copied, 'inner'))).mode & 0o7777).toBe(0o2750);
      expect(await used(storage, copy)).toBeLessThan(10 * 1024 ** 2);
      await rm(join(folder, 'twin'));
      await storage.destroy(disk);
      expect((await stat(join(copied, 'twin'))).size).toBe(3_000_000);
      await expectFault(storage.create(none, 1, soon(), disk), 'notFound');
      expect(await storage.observe(none)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([copy]);
    });

    test('an aborted copy leaves nothing and can be repeated', async () => {
      const { storage } = await makeFixture();
      const [disk, copy] = [volume(), volume()];
      await storage.create(disk, 1, soon());
      const folder = await storage.mount(disk);
      for (let count = 0; count < 300; count++) await writeFile(join(folder, `file${count}`), randomBytes(1_000_000));
      const calling = new AbortController();
      const made = storage.create(copy, 1, calling.signal, disk).then(
        () => 'made',
        (error: unknown) => String(error),
      );
      while ((await storage.listOwned()).length === 1) await delay(1);
      calling.abort();
      expect(await made).toMatch(/abort/i);
      expect(await storage.observe(copy)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([disk]);
      await storage.create(copy, 1, soon(), disk);
      expect(await readdir(await storage.mount(copy))).toHaveLength(300);
    });

    test('measures and destroys trees with any modes and names, deeper than the longest path', async () => {
      const { storage, root } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      const folder = await storage.mount(disk);
      await mkdir(join(folder, 'closed', 'inner'), { recursive: true });
      for (const odd of ['closed/inner/file', '-rf', 'a\nb']) await writeFile(join(folder, odd), 'x');
      for (const closed of ['closed/inner/file', 'closed/inner', 'closed']) await chmod(join(folder, closed), 0o000);
      // Path longer than 4,096 characters, created from the inside out.
      const long = 'd'.repeat(200);
      let tip = join(folder, 'tip');
      await mkdir(tip);
      for (let depth = 0; depth < 40; depth++) {
        const outer = join(folder, `outer${depth}`);
        await mkdir(outer);
        await rename(tip, join(outer, long));
        tip = outer;
      }
      expect(await used(storage, disk)).toBeGreaterThan(0);
      await storage.destroy(disk);
      expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      expect(await readdir(join(root, 'volume'))).toEqual([]);
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

    test('reports total and free space', async () => {
      const { storage } = await makeFixture();
      const { totalBytes, freeBytes } = await storage.space();
      expect(freeBytes).toBeGreaterThan(0);
      expect(totalBytes).toBeGreaterThan(freeBytes);
    });
  });
}
