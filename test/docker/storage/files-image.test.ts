/** Uploads into a disk with a hard limit, on this host's loop devices. Needs root. */
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { uploadFolder } from '../../../src/storage/files.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { makeStorageFixture } from '../../conformance/host-storage.ts';
import { soon, used, volume } from '../../conformance/storage.ts';

const MB = 1024 ** 2;
const GB = 1024 ** 3;
const never = new AbortController().signal;

async function* ofBytes(bytes: number): AsyncGenerator<Uint8Array, void> {
  const piece = Buffer.alloc(4 * MB, 1);
  for (let left = bytes; left > 0; left -= piece.length) yield piece.subarray(0, Math.min(left, piece.length));
}

test('refuses an upload past the size as full, leaves nothing, and accepts the next that fits', async () => {
  const { storage } = await makeStorageFixture(async (at) => makeImageFileStorage({ ...at, copies: 'live' }));
  const disk = volume();
  await storage.create(disk, 1, soon());
  const root = await storage.mount(disk);
  const files = await storage.files(disk);
  const write = (path: string, bytes: number, sizeBytes: number | null) =>
    files.write(path, { source: ofBytes(bytes), sizeBytes, maxBytes: 10 * GB, onlyNew: false }, never);
  await write('first', 200 * MB, 200 * MB);
  // Without a length the upload meets the end of the disk; with one it is refused first.
  await expect(write('second', GB, null)).rejects.toMatchObject({ kind: 'full', message: 'the volume is full' });
  await expect(write('first', 900 * MB, 900 * MB)).rejects.toMatchObject({
    kind: 'full',
    message: expect.stringContaining('more than the free space'),
  });
  expect(await readdir(root)).toEqual(['first']);
  expect(await readdir(uploadFolder(root))).toEqual([]);
  await files.read('first', async ({ sizeBytes }) => expect(sizeBytes).toBe(200 * MB), never);
  await expect.poll(() => used(storage, disk)).toBeLessThan(210 * MB);
  await write('second', 700 * MB, null);
});

test('removes a partial upload of a dead server at the next mount', async () => {
  const { storage } = await makeStorageFixture(async (at) => makeImageFileStorage({ ...at, copies: 'live' }));
  const disk = volume();
  await storage.create(disk, 1, soon());
  const root = await storage.mount(disk);
  await mkdir(uploadFolder(root));
  await writeFile(join(uploadFolder(root), 'half'), Buffer.alloc(100 * MB, 1), { flush: true });
  expect(await storage.mount(disk)).toBe(root);
  expect(await readdir(uploadFolder(root))).toEqual(['half']);
  await storage.unmount(disk);
  await storage.mount(disk);
  await expect(readdir(uploadFolder(root))).rejects.toThrow('ENOENT');
  await expect.poll(() => used(storage, disk)).toBeLessThan(MB);
});
