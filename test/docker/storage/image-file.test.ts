/**
 * Image files on this host's loop devices: hard limits, growth under load, recovery after a crash.
 * Needs root.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, open, readdir, rm, stat, statfs, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Docker from 'dockerode';
import { expect, onTestFinished, test } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { buildWithMmdebstrap } from '../../../src/engines/docker/image/mmdebstrap.ts';
import { readRecipe } from '../../../src/engines/docker/image/recipes.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { findLoopDevice, listMountPoints } from '../../../src/storage/image-file/image-mounts.ts';
import { describeHostStorage, makeStorageFixture, type HostStorageFixture } from '../../conformance/host-storage.ts';
import { expectFault, run, soon, used, volume } from '../../conformance/storage.ts';

const GB = 1024 ** 3;
const make: Parameters<typeof describeHostStorage>[1] = async (at) => makeImageFileStorage({ ...at, copies: 'live' });
const makeFixture = (): Promise<HostStorageFixture> => makeStorageFixture(make);

describeHostStorage('image-file', make);

/** Writes until ENOSPC and returns the bytes written. */
async function fill(file: string): Promise<number> {
  const handle = await open(file, 'a');
  const piece = Buffer.alloc(4 * 1024 ** 2, 1);
  let bytes = 0;
  try {
    for (;;) bytes += (await handle.write(piece)).bytesWritten;
  } catch (error) {
    expect(error).toMatchObject({ code: 'ENOSPC' });
    await handle.sync();
    return bytes;
  } finally {
    await handle.close();
  }
}

test('a disk holds its size within 1 %, then gives ENOSPC to itself alone, and reports its usage', async () => {
  const { storage, root } = await makeFixture();
  const [full, other] = [volume(), volume()];
  for (const disk of [full, other]) await storage.create(disk, 1, soon());
  const folder = await storage.mount(full);
  const took = await fill(join(folder, 'all'));
  expect(took).toBeGreaterThanOrEqual(GB);
  expect(took).toBeLessThan(1.01 * GB);
  expect(Math.abs((await used(storage, full)) - GB)).toBeLessThan(0.01 * GB);
  await writeFile(join(await storage.mount(other), 'fine'), Buffer.alloc(1024 ** 2), { flush: true });
  // No byte is outside of the image.
  expect((await readdir(join(root, 'volume', full.id))).toSorted()).toEqual(['disk.json', 'image', 'mount']);
});

test('an empty disk takes little space of the host, and deleted data is returned to the host', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 100, soon());
  const taken = async (): Promise<number> => (await stat(join(root, 'volume', disk.id, 'image'))).blocks * 512;
  expect(await taken()).toBeLessThan(8 * 1024 ** 2);
  const folder = await storage.mount(disk);
  await writeFile(join(folder, 'file'), Buffer.alloc(64 * 1024 ** 2, 1), { flush: true });
  await run('rm', [join(folder, 'file')]);
  await run('sync', ['-f', folder]);
  await storage.unmount(disk);
  // The kernel discards in the background.
  await expect.poll(taken).toBeLessThan(48 * 1024 ** 2);
});

longTest('grows under a writer and holds the larger size; never shrinks', async () => {
  const { storage } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  const folder = await storage.mount(disk);
  const writing = fill(join(folder, 'all'));
  await storage.grow(disk, 2);
  const took = (await writing) + (await fill(join(folder, 'more')));
  expect(took).toBeGreaterThanOrEqual(2 * GB);
  expect(took).toBeLessThan(2.02 * GB);
  await storage.grow(disk, 1);
  expect(Math.abs((await used(storage, disk)) - 2 * GB)).toBeLessThan(0.02 * GB);
  await storage.unmount(disk);
  await storage.grow(disk, 3);
  expect(await fill(join(await storage.mount(disk), 'third'))).toBeGreaterThan(0.98 * GB);
});

const CYCLES = atLevel({ short: 10, long: 100 });

test(`${CYCLES} disks made, mounted, written and destroyed leave no device, mount or file`, async () => {
  const { storage, root } = await makeFixture();
  for (let count = 0; count < CYCLES; count++) {
    const disk = volume();
    await storage.create(disk, 1, soon());
    await writeFile(join(await storage.mount(disk), 'file'), 'x');
    await storage.destroy(disk);
    expect(await findLoopDevice(join(root, 'volume', disk.id, 'image'))).toBeNull();
  }
  expect(await readdir(join(root, 'volume'))).toEqual([]);
  expect([...(await listMountPoints())].filter((point) => point.startsWith(root))).toEqual([]);
});

test('neither unmounts nor destroys a disk in use, and names the process', async () => {
  const { storage } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  const folder = await storage.mount(disk);
  await writeFile(join(folder, 'kept'), 'kept');
  const worker = spawn('sleep', ['60'], { cwd: folder });
  await once(worker, 'spawn');
  const users = [{ pid: worker.pid, command: 'sleep' }];
  for (const end of [storage.unmount, storage.destroy])
    await expect(end(disk)).rejects.toMatchObject({ kind: 'busy', users: expect.arrayContaining(users) });
  expect(await readdir(await storage.mount(disk))).toEqual(['kept']);
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  await storage.destroy(disk);
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
});

test('does not destroy a disk mounted elsewhere, and mounts it again by the same device', async () => {
  const { storage, root, outside } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  await run('mount', ['--bind', await storage.mount(disk), outside]);
  const image = join(root, 'volume', disk.id, 'image');
  const device = await findLoopDevice(image);
  await storage.unmount(disk);
  expect(await findLoopDevice(image)).toBe(device);
  await expectFault(storage.destroy(disk), 'busy');
  await writeFile(join(outside, 'from-inside'), 'x');
  expect(await readdir(await storage.mount(disk))).toEqual(['from-inside']);
  expect(await findLoopDevice(image)).toBe(device);
  await run('umount', [outside]);
  await storage.destroy(disk);
  expect(await findLoopDevice(image)).toBeNull();
});

test('a build of an image holds no disk', async () => {
  const { storage } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  await storage.mount(disk);
  const folder = new URL('../../../images/notebook', import.meta.url).pathname;
  const begun = Promise.withResolvers<void>();
  const ending = new AbortController();
  onTestFinished(() => ending.abort());
  const building = buildWithMmdebstrap({
    docker: new Docker(),
    recipe: await readRecipe(folder),
    folder,
    signal: ending.signal,
    report: () => begun.resolve(),
  });
  const ended = building.then(
    () => null,
    (error: unknown) => error,
  );
  await Promise.race([begun.promise, ended]);
  await storage.destroy(disk);
  ending.abort();
  expect(await ended).toMatchObject({ name: 'AbortError' });
});

test('ignores setuid programs and device nodes of a disk on the host', async () => {
  const { storage } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  const folder = await storage.mount(disk);
  const { stdout } = await run('findmnt', ['-n', '-o', 'OPTIONS', '--target', folder]);
  expect(stdout).toMatch(/nosuid/);
  expect(stdout).toMatch(/nodev/);
});

test('writes of instances bypass the host’s page cache', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  await storage.mount(disk);
  const device = await findLoopDevice(join(root, 'volume', disk.id, 'image'));
  const { stdout } = await run('losetup', ['--noheadings', '--output', 'DIO', device ?? '']);
  expect(stdout.trim()).toBe('1');
});

test('eight workers make and destroy disks at once without disturbing each other, while devices come and go', async () => {
  const { storage } = await makeFixture();
  const useRepeatedly = async (): Promise<void> => {
    for (let count = 0; count < 12; count++) {
      const disk = volume();
      await storage.create(disk, 1, soon());
      await storage.destroy(disk);
    }
  };
  await Promise.all(Array.from({ length: 8 }, useRepeatedly));
  expect(await storage.listOwned()).toEqual([]);
});

test('a device attached by a dead server blocks no use of the disk, and is detached with it', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  const attach = async (folder: string): Promise<void> => {
    await run('losetup', ['--find', '--show', join(root, 'volume', folder, 'image')]);
  };
  await storage.create(disk, 1, soon());
  await attach(disk.id);
  const image = join(root, 'volume', disk.id, 'image');
  await writeFile(join(await storage.mount(disk), 'kept'), 'kept');
  await storage.unmount(disk);
  await expect.poll(() => findLoopDevice(image)).toBeNull();
  await attach(disk.id);
  await storage.destroy(disk);
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
  const begun = join(root, 'volume', `.new-${disk.id}`);
  await mkdir(begun);
  await writeFile(join(begun, 'image'), Buffer.alloc(1024 ** 2));
  await attach(`.new-${disk.id}`);
  await storage.create(disk, 1, soon());
  expect(await storage.observe(disk)).toMatchObject({ kind: 'present' });
  await storage.destroy(disk);
  const { stdout } = await run('losetup', ['-a']);
  expect(stdout).not.toContain(root);
});

test('resumes an interrupted growth, to the promised size exactly', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  const folder = await storage.mount(disk);
  const image = join(root, 'volume', disk.id, 'image');
  // A server killed between growing the image and growing the file system.
  for (let tries = 0; tries < 3; tries++) await truncate(image, (await stat(image)).size + GB / 4);
  await storage.grow(disk, 2);
  const { bsize, blocks } = await statfs(folder);
  expect((bsize * blocks) / GB).toBeGreaterThan(2);
  expect((bsize * blocks) / GB).toBeLessThan(2.1);
});

test('an abandoned growth takes nothing from a later, smaller one', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  const folder = await storage.mount(disk);
  await truncate(join(root, 'volume', disk.id, 'image'), 10 * GB);
  for (const isMounted of [true, false]) {
    if (!isMounted) await storage.unmount(disk);
    const sizeGB = isMounted ? 2 : 3;
    await storage.grow(disk, sizeGB);
    await storage.mount(disk);
    const { bsize, blocks } = await statfs(folder);
    expect((bsize * blocks) / GB).toBeGreaterThan(sizeGB);
    expect((bsize * blocks) / GB).toBeLessThan(sizeGB + 0.1);
  }
});

test('usage of a disk is unknown after a host crash until the next mount', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  await writeFile(join(await storage.mount(disk), 'kept'), Buffer.alloc(50 * 1024 ** 2, 1), { flush: true });
  await run('umount', [join(root, 'volume', disk.id, 'mount')]);
  expect(await storage.usage(disk, soon())).toBeNull();
  await storage.mount(disk);
  expect(await used(storage, disk)).toBeGreaterThan(50 * 1024 ** 2);
});

test('a disk with a missing or empty image is absent', async () => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  await storage.create(disk, 1, soon());
  expect(await storage.usage(disk, soon())).not.toBeNull();
  await truncate(join(root, 'volume', disk.id, 'image'), 0);
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
  // The exact measurement follows.
  expect(await storage.usage(disk, soon())).toBeNull();
  await rm(join(root, 'volume', disk.id, 'image'));
  expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
});

test('refuses a size above the host’s file limit as full, at creation and growth, and leaves nothing', async (context) => {
  const { storage, root } = await makeFixture();
  const disk = volume();
  const EXT4 = 0xef53;
  context.skip((await statfs(root)).type !== EXT4, 'files of this host can be larger than any volume');
  const TOO_LARGE_GB = 100_000;
  await expectFault(storage.create(disk, TOO_LARGE_GB, soon()), 'full');
  expect(await readdir(join(root, 'volume'))).toEqual([]);
  await storage.create(disk, 1, soon());
  await expectFault(storage.grow(disk, TOO_LARGE_GB), 'full');
  expect(await storage.observe(disk)).toEqual({ kind: 'present', sizeGB: 1 });
});
