/**
 * Copies of disks: a point in time where the file system can, aborted, killed midway, and on a full
 * host. Needs root.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  mkdir,
  open,
  readFile,
  readdir,
  rename,
  rm,
  stat,
  statfs,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { isLong } from '../../fixtures/level.ts';
import { longDescribe, longTest } from '../../fixtures/long-test.ts';
import { makeDirectoryStorage } from '../../../src/storage/directory/directory.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { findLoopDevice, listMountPoints, thawFileSystems } from '../../../src/storage/image-file/image-mounts.ts';
import { canReflink } from '../../../src/storage/layout.ts';
import { describeHostStorage, makeStorageFixture, type HostStorageFixture } from '../../conformance/host-storage.ts';
import { expectFault, run, soon, used, volume } from '../../conformance/storage.ts';
import { mountXfs } from './file-systems.ts';

type Make = Parameters<typeof makeStorageFixture>[0];
const makes: Record<string, Make> = {
  directory: async (at) => makeDirectoryStorage(at),
  live: async (at) => makeImageFileStorage({ ...at, copies: 'live' }),
  atomic: async (at) => makeImageFileStorage({ ...at, copies: 'atomic' }),
};

let base: Awaited<ReturnType<typeof mountXfs>>;
beforeAll(async () => {
  base = await mountXfs(40);
});
afterAll(() => base.remove());

const fixtureOf = (kind: keyof typeof makes): Promise<HostStorageFixture> =>
  makeStorageFixture(makes[kind] as Make, base.folder);

const hashes = async (folder: string): Promise<string> =>
  (await run('sh', ['-c', 'cd "$1" && find . -type f | sort | xargs sha256sum', 'sh', folder])).stdout;

describe('copies with shared blocks', () => {
  if (isLong) describeHostStorage('image-file, atomic', makes['atomic'] as Make, () => base.folder);

  test('detects block sharing', async () => {
    const { root } = await fixtureOf('atomic');
    expect(await canReflink(root)).toBe(true);
  });

  test('copies a point in time under writes, almost without space, while the source keeps working', async () => {
    const { storage } = await fixtureOf('atomic');
    const disk = volume();
    await storage.create(disk, 2, soon());
    const folder = await storage.mount(disk);
    await writeFile(join(folder, 'large'), randomBytes(256 * 1024 ** 2), { flush: true });
    // Each number is written to the first file before the second.
    const [first, second] = [await open(join(folder, 'first'), 'w'), await open(join(folder, 'second'), 'w')];
    let writing = true;
    let last = 0;
    const writer = (async () => {
      for (; writing; last++) {
        await first.appendFile(`${last}\n`);
        await second.appendFile(`${last}\n`);
      }
    })();
    for (let copies = 0; copies < 5; copies++) {
      await delay(50);
      const copy = volume();
      const { freeBytes } = await storage.space();
      const before = last;
      await storage.create(copy, 2, soon(), disk);
      const copied = await storage.mount(copy);
      const lines = async (name: string): Promise<number> =>
        (await readFile(join(copied, name), 'utf8')).trimEnd().split('\n').length;
      const [ofFirst, ofSecond] = [await lines('first'), await lines('second')];
      expect(ofFirst).toBeGreaterThanOrEqual(before);
      expect(ofFirst - ofSecond).toBeGreaterThanOrEqual(0);
      expect(ofFirst - ofSecond).toBeLessThanOrEqual(1);
      expect(freeBytes - (await storage.space()).freeBytes).toBeLessThan(64 * 1024 ** 2);
      expect((await stat(join(copied, 'large'))).size).toBe(256 * 1024 ** 2);
    }
    const now = last;
    await delay(200);
    expect(last, 'the writer goes on').toBeGreaterThan(now);
    writing = false;
    await writer;
    await Promise.all([first.close(), second.close()]);
  });

  longTest('a copy of a disk with an interrupted growth has exactly its promised size', async () => {
    const { storage, root } = await fixtureOf('atomic');
    const [disk, copy] = [volume(), volume()];
    await storage.create(disk, 1, soon());
    await truncate(join(root, 'volume', disk.id, 'image'), 10 * 1024 ** 3);
    await storage.create(copy, 2, soon(), disk);
    const { bsize, blocks } = await statfs(await storage.mount(copy));
    expect((bsize * blocks) / 1024 ** 3).toBeGreaterThan(2);
    expect((bsize * blocks) / 1024 ** 3).toBeLessThan(2.1);
  });

  longTest('makes several copies of one disk at once', async () => {
    const { storage } = await fixtureOf('atomic');
    const disk = volume();
    await storage.create(disk, 1, soon());
    await writeFile(join(await storage.mount(disk), 'file'), 'x', { flush: true });
    const copies = [volume(), volume(), volume(), volume()];
    await Promise.all(copies.map((copy) => storage.create(copy, 1, soon(), disk)));
    for (const copy of copies) expect(await readdir(await storage.mount(copy))).toEqual(['file']);
  });

  longTest('thaws writers that a dead server left frozen', async () => {
    const { storage, root } = await fixtureOf('atomic');
    const disk = volume();
    await storage.create(disk, 1, soon());
    const folder = await storage.mount(disk);
    await run('fsfreeze', ['--freeze', join(root, 'volume', disk.id, 'mount')]);
    let written = false;
    const writing = writeFile(join(folder, 'file'), 'x', { flush: true }).then(() => (written = true));
    await delay(200);
    expect(written).toBe(false);
    await thawFileSystems(root);
    await writing;
    expect(await readdir(folder)).toEqual(['file']);
  });
});

longDescribe.each(Object.keys(makes))('a copy (%s)', (kind) => {
  longTest('completes while its source is mounted, unmounted and written to', async () => {
    const { storage } = await fixtureOf(kind);
    const [disk, copy] = [volume(), volume()];
    await storage.create(disk, 1, soon());
    const folder = await storage.mount(disk);
    for (let count = 0; count < 200; count++) await writeFile(join(folder, `file${count}`), randomBytes(500_000));
    await storage.unmount(disk);
    let copying = true;
    const made = storage.create(copy, 1, soon(), disk).finally(() => (copying = false));
    const restless = (async () => {
      while (copying) {
        await writeFile(join(await storage.mount(disk), 'new'), 'x', { flush: true });
        await storage.unmount(disk);
      }
    })();
    await Promise.all([made, restless]);
    const copied = await storage.mount(copy);
    const names = (await readdir(copied)).filter((name) => name !== 'new');
    expect(names).toHaveLength(200);
    for (const name of names) expect((await stat(join(copied, name))).size).toBe(500_000);
    expect(await readdir(await storage.mount(disk))).toHaveLength(201);
  });

  longTest('follows no folder replaced by a link, and tolerates files that vanish', async () => {
    const { storage, outside } = await fixtureOf(kind);
    await writeFile(join(outside, 'shadow'), 'a secret of the host');
    const disk = volume();
    await storage.create(disk, 2, soon());
    const folder = await storage.mount(disk);
    for (const swapsAfterMs of [15, 30, 45, 65]) {
      await mkdir(join(folder, 'a'));
      await writeFile(join(folder, 'a', '0big'), Buffer.alloc(100_000_000, 1));
      for (const name of ['shadow', 'goes']) await writeFile(join(folder, 'a', name), 'of the volume');
      const copy = volume();
      const made = storage.create(copy, 2, soon(), disk);
      await delay(swapsAfterMs);
      await rm(join(folder, 'a', 'goes'));
      await rename(join(folder, 'a'), join(folder, 'old'));
      await symlink(outside, join(folder, 'a'));
      await made;
      const copied = await storage.mount(copy);
      const { stdout } = await run('grep', ['-rl', 'a secret', copied]).catch(() => ({ stdout: '' }));
      expect(stdout, `swapped after ${swapsAfterMs} ms`).toBe('');
      await rm(join(folder, 'a'));
      await rm(join(folder, 'old'), { recursive: true });
      await storage.unmount(copy);
      await storage.destroy(copy);
    }
  });

  longTest('may be larger than its source, and holds that size', async () => {
    const { storage } = await fixtureOf(kind);
    const [disk, copy] = [volume(), volume()];
    await storage.create(disk, 1, soon());
    await writeFile(join(await storage.mount(disk), 'file'), randomBytes(1_000_000), { flush: true });
    await storage.create(copy, 3, soon(), disk);
    expect(await storage.observe(copy)).toEqual({ kind: 'present', sizeGB: kind === 'directory' ? null : 3 });
    expect(await used(storage, copy)).toBeGreaterThanOrEqual(1_000_000);
    await run('fallocate', ['--length', '2500M', join(await storage.mount(copy), 'rest')]);
  });

  longTest('is repeated in full after two kills midway, and no partial copy is left', async () => {
    const { storage, root } = await fixtureOf(kind);
    const [disk, copy] = [volume(), volume()];
    await storage.create(disk, 2, soon());
    const folder = await storage.mount(disk);
    for (let count = 0; count < 60; count++) await writeFile(join(folder, `file${count}`), randomBytes(4_000_000));
    await run('sync', ['-f', folder]);
    const fresh = join(root, 'volume', `.new-${copy.id}`);
    const inTheMiddle = async (): Promise<boolean> => {
      if (kind === 'atomic') return (await readdir(join(root, 'volume'))).length > 1;
      const files = kind === 'directory' ? join(fresh, 'files') : join(fresh, 'mount', 'files');
      return (await readdir(files).catch(() => [])).length >= 3;
    };
    for (let times = 0; times < 2; times++) {
      const copying = fileURLToPath(new URL('copy-process.ts', import.meta.url));
      const server = spawn(process.execPath, [copying, kind, root, disk.id, copy.id], { stdio: 'inherit' });
      const over = once(server, 'exit');
      await vi.waitUntil(inTheMiddle, { interval: 1, timeout: 120_000 });
      server.kill('SIGKILL');
      await over;
      // Copies of shared blocks finish before a kill.
      if (kind !== 'atomic') expect(await storage.observe(copy)).toEqual({ kind: 'absent' });
    }
    await storage.create(copy, 2, soon(), disk);
    expect(await hashes(await storage.mount(copy))).toBe(await hashes(folder));
    expect((await readdir(join(root, 'volume'))).toSorted()).toEqual([disk.id, copy.id].toSorted());
    const mine = [...(await listMountPoints())].filter((point) => point.startsWith(root));
    expect(mine).toHaveLength(kind === 'directory' ? 0 : 2);
    const { stdout } = await run('ps', ['-eo', 'args']);
    expect(stdout.split('\n').filter((line) => line.startsWith('cp ') && line.includes(root))).toEqual([]);
    await storage.destroy(copy);
    expect(await findLoopDevice(join(root, 'volume', copy.id, 'image'))).toBeNull();
  });
});

longDescribe('copies on a full host', () => {
  longTest.each(['directory', 'live'])('are refused with a reason, and leave nothing (%s)', async (kind) => {
    const small = await mountXfs(3);
    try {
      const { storage } = await makeStorageFixture(makes[kind] as Make, small.folder);
      const [disk, copy] = [volume(), volume()];
      await storage.create(disk, 2, soon());
      await writeFile(join(await storage.mount(disk), 'file'), randomBytes(1_200_000_000), { flush: true });
      const { freeBytes } = await storage.space();
      await expectFault(storage.create(copy, 2, soon(), disk), 'full');
      expect(await storage.observe(copy)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([disk]);
      expect((await storage.space()).freeBytes).toBeGreaterThan(freeBytes - 8 * 1024 ** 2);
      await storage.destroy(disk);
    } finally {
      await small.remove();
    }
  });
});
