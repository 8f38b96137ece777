import { randomUUID } from 'node:crypto';
import { chmod, lstat, mkdir, mkdtemp, readdir, rename, rm, stat, symlink, writeFile, link } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { DiskId, Storage } from '../../src/storage/contract.ts';
import { makeDirectoryStorage, makeRoot } from '../../src/storage/directory/directory.ts';

interface Place {
  storage: Storage;
  root: string;
  outside: string;
}

async function place(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-disks-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const root = join(folder, 'disks');
  const outside = join(folder, 'outside');
  await Promise.all([mkdir(root), mkdir(outside)]);
  await makeRoot({ root, installation: 'ours' });
  return { storage: makeDirectoryStorage({ root, installation: 'ours' }), root, outside };
}

const volume = (id: string = randomUUID()): DiskId => ({ kind: 'volume', id });
const isThere = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

test('a disk is absent, then made, mounted, seen and listed, then destroyed and absent; each verb twice is as once', async () => {
  const { storage, root } = await place();
  const disks: DiskId[] = [
    volume(),
    { kind: 'data', id: `notebook-${randomUUID()}` },
    { kind: 'shared', id: `${randomUUID()}/${randomUUID()}` },
  ];
  for (const disk of disks) {
    expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
    await expect(storage.mount(disk)).rejects.toThrow(/does not exist/);
    await storage.destroy(disk);
    await storage.create(disk, 1);
    const folder = await storage.mount(disk);
    expect(folder).toBe(join(root, disk.kind, disk.id, 'files'));
    expect((await stat(join(folder, '..'))).mode & 0o777).toBe(0o700);
    await writeFile(join(folder, 'kept'), 'kept');
    await storage.create(disk, 1);
    expect(await readdir(folder)).toEqual(['kept']);
    expect(await storage.observe(disk)).toEqual({ kind: 'present' });
  }
  expect((await storage.listOwned()).toSorted((a, b) => a.kind.localeCompare(b.kind))).toEqual(
    disks.toSorted((a, b) => a.kind.localeCompare(b.kind)),
  );
  for (const disk of disks) {
    await storage.destroy(disk);
    await storage.destroy(disk);
    expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
  }
  expect(await storage.listOwned()).toEqual([]);
});

test.each(['', '.', '..', '../x', 'a/../b', '/etc', 'a/b', 'a//b', '.hidden', 'a\0b', '-rf', 'a\nb', '~', 'ä'])(
  'an id that is not one is refused by every verb: %j',
  async (id) => {
    const { storage, root } = await place();
    const verbs = [
      (disk: DiskId) => storage.create(disk, 1),
      (disk: DiskId) => storage.mount(disk),
      (disk: DiskId) => storage.observe(disk),
      (disk: DiskId) => storage.destroy(disk),
    ];
    for (const kind of ['volume', 'data'] as const)
      for (const verb of verbs) await expect(verb({ kind, id })).rejects.toThrow(/not the id of/);
    if (id !== 'a/b')
      for (const verb of verbs) await expect(verb({ kind: 'shared', id: `x/${id}` })).rejects.toThrow(/not the id of/);
    await expect(storage.create({ kind: 'shared', id: 'alone' }, 1)).rejects.toThrow(/not the id of/);
    expect(await readdir(root)).toEqual(['.berth-installation']);
  },
);

test('links inside a disk are neither measured through nor deleted through', async () => {
  const { storage, outside } = await place();
  await writeFile(join(outside, 'large'), Buffer.alloc(4 * 1024 ** 2, 1));
  const disk = volume();
  await storage.create(disk, 1);
  const folder = await storage.mount(disk);
  await symlink(outside, join(folder, 'folder'));
  await symlink(join(outside, 'large'), join(folder, 'file'));
  await symlink('/', join(folder, 'all'));
  expect(await storage.usage(disk, AbortSignal.timeout(10_000))).toBeLessThan(1024 ** 2);
  await storage.destroy(disk);
  expect((await stat(join(outside, 'large'))).size).toBe(4 * 1024 ** 2);
});

test('a link in the place of a disk is no disk', async () => {
  const { storage, root, outside } = await place();
  const disk = volume();
  await mkdir(join(root, 'volume'));
  await symlink(outside, join(root, 'volume', disk.id));
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
  await expect(storage.mount(disk)).rejects.toThrow(/does not exist/);
  await storage.destroy(disk);
  expect(await isThere(outside)).toBe(true);
});

test('usage counts what is allocated, each hard link once, and goes on when files vanish', async () => {
  const { storage } = await place();
  const disk = volume();
  await storage.create(disk, 1);
  const folder = await storage.mount(disk);
  const used = async (): Promise<number> => {
    const bytes = await storage.usage(disk, AbortSignal.timeout(10_000));
    if (bytes === null) throw new Error('it could not be measured');
    return bytes;
  };
  expect(await used()).toBe(0);
  await mkdir(join(folder, 'deep', 'er'), { recursive: true });
  await writeFile(join(folder, 'deep', 'er', 'one'), Buffer.alloc(1024 ** 2, 1));
  const once = await used();
  expect(once).toBeGreaterThanOrEqual(1024 ** 2);
  for (let count = 0; count < 5; count++) await link(join(folder, 'deep', 'er', 'one'), join(folder, `link${count}`));
  expect((await used()) - once).toBeLessThan(64 * 1024);
  let churning = true;
  const churn = (async () => {
    for (let count = 0; churning; count++) {
      await writeFile(join(folder, `churn${count % 50}`), 'x');
      await rm(join(folder, `churn${(count + 25) % 50}`), { force: true });
    }
  })();
  for (let count = 0; count < 30; count++) expect(await used()).toBeGreaterThanOrEqual(1024 ** 2);
  churning = false;
  await churn;
});

test('a tree of any modes and names, and deeper than a path may be long, is measured and destroyed', async () => {
  const { storage, root } = await place();
  const disk = volume();
  await storage.create(disk, 1);
  const folder = await storage.mount(disk);
  await mkdir(join(folder, 'closed', 'inner'), { recursive: true });
  await writeFile(join(folder, 'closed', 'inner', 'file'), 'x');
  await writeFile(join(folder, '-rf'), 'x');
  await writeFile(join(folder, 'a\nb'), 'x');
  await chmod(join(folder, 'closed', 'inner', 'file'), 0o000);
  await chmod(join(folder, 'closed', 'inner'), 0o000);
  await chmod(join(folder, 'closed'), 0o000);
  // Made from the inside out, as a program that changes into each folder would: its whole path is longer than 4,096 characters.
  const name = 'd'.repeat(200);
  let tip = join(folder, 'tip');
  await mkdir(tip);
  for (let depth = 0; depth < 40; depth++) {
    const outer = join(folder, `outer${depth}`);
    await mkdir(outer);
    await rename(tip, join(outer, name));
    tip = outer;
  }
  expect(await storage.observe(disk)).toMatchObject({ kind: 'present' });
  await storage.destroy(disk);
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
  expect(await readdir(join(root, 'volume'))).toEqual([]);
});

test('a deletion that was cut short is seen, and done to its end', async () => {
  const { storage, root } = await place();
  const disk = volume();
  await storage.create(disk, 1);
  await writeFile(join(root, 'volume', disk.id, 'file'), 'x');
  // What a process leaves that died in the middle of it.
  await rename(join(root, 'volume', disk.id), join(root, 'volume', `.gone-${disk.id}`));
  expect(await storage.observe(disk)).toMatchObject({ kind: 'present' });
  await expect(storage.mount(disk)).rejects.toThrow(/does not exist/);
  expect(await storage.listOwned()).toEqual([]);
  await storage.destroy(disk);
  expect(await readdir(join(root, 'volume'))).toEqual([]);
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
});

test('creates that race end with one folder, which none of them replaces', async () => {
  const { storage } = await place();
  const other = storage;
  for (let round = 0; round < 30; round++) {
    const disk: DiskId = { kind: 'shared', id: `${randomUUID()}/r` };
    const made = Array.from({ length: 8 }, async (_, index) => {
      await (index % 2 === 0 ? storage : other).create(disk, 1);
      return (await stat(await storage.mount(disk))).ino;
    });
    expect(new Set(await Promise.all(made)).size).toBe(1);
  }
});

test('without its root nothing is known, nothing is made and nothing is lost', async () => {
  const { storage, root } = await place();
  const disk = volume();
  await rm(root, { recursive: true });
  expect(await storage.observe(disk)).toMatchObject({ kind: 'unknown' });
  await storage.destroy(disk);
  expect(await storage.listOwned()).toEqual([]);
  await writeFile(root, 'a file');
  expect(await storage.observe(disk)).toMatchObject({ kind: 'unknown' });
});
