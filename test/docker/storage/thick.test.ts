/** Volumes with all their blocks, on a file system that a root disk fills. Needs root. */
import { open, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, afterAll, expect, test } from 'vitest';
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { makeImageFileStorage } from '../../../src/storage/image-file/image-file.ts';
import { prepareRoot } from '../../../src/storage/layout.ts';
import { run, soon, volume } from '../../conformance/storage.ts';
import { mountExt4 } from './file-systems.ts';

const GB = 1024 ** 3;
const MIB = 1024 ** 2;
const PIECE = Buffer.alloc(4 * MIB, 1);

let host: Awaited<ReturnType<typeof mountExt4>>;
beforeAll(async () => {
  host = await mountExt4(3);
  await prepareRoot({ root: host.folder, installation: 'ours' });
});
afterAll(() => host?.remove());

const storageOf = (thick: boolean): Storage =>
  makeImageFileStorage({ root: host.folder, installation: 'ours', copies: 'live', thick });
const imageOf = ({ kind, id }: DiskId): string => join(host.folder, kind, id, 'image');
const filling = (): string => join(host.folder, 'filling');

/** What a root disk without a limit does. */
async function fillHost(): Promise<void> {
  const { bsize, bavail } = await statfs(host.folder);
  await run('fallocate', ['--length', String(bsize * bavail - MIB), filling()]);
  const rest = await open(filling(), 'a');
  await expect(
    (async () => {
      for (;;) await rest.write(PIECE);
    })(),
  ).rejects.toMatchObject({ code: 'ENOSPC' });
  await rest.close();
}

async function writeAll(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'w');
  try {
    for (let done = 0; done < bytes; done += PIECE.length) await file.write(PIECE);
    await file.sync();
  } finally {
    await file.close();
  }
}

test('no write to a promised volume fails while the host is full, and neither does its growth before', async () => {
  const storage = storageOf(true);
  const disk = { ...volume(), promisedGB: 1 };
  await storage.create(disk, 1, soon());
  await storage.grow({ ...disk, promisedGB: 2 }, 2);
  const folder = await storage.mount(disk);
  await fillHost();
  try {
    await writeAll(join(folder, 'all'), 2 * GB);
    // Deleted files return no blocks to the host.
    await rm(join(folder, 'all'));
    await run('sync', ['-f', folder]);
    await storage.unmount(disk);
    expect((await storage.allocation(disk))?.heldBytes).toBeGreaterThan(2 * GB);
  } finally {
    await rm(filling());
    await storage.destroy(disk);
  }
});

test('a best-effort disk holds what was written, and a promised one all of its blocks', async () => {
  const storage = storageOf(true);
  const [promised, bestEffort] = [{ ...volume(), promisedGB: 1 }, volume()];
  for (const disk of [promised, bestEffort]) await storage.create(disk, 1, soon());
  const held = await Promise.all([promised, bestEffort].map((disk) => storage.allocation(disk)));
  expect(held[0]?.heldBytes).toBeGreaterThanOrEqual(held[0]?.maxBytes ?? Infinity);
  expect(held[1]?.heldBytes).toBeLessThan(64 * MIB);
  expect(held[1]?.maxBytes).toBeGreaterThan(GB);
  for (const disk of [promised, bestEffort]) await storage.destroy(disk);
});

test('a volume of a thin pool gets its blocks once the pool is thick, also while mounted', async () => {
  const disk = { ...volume(), promisedGB: 1 };
  await storageOf(false).create(disk, 1, soon());
  const folder = await storageOf(false).mount(disk);
  await writeAll(join(folder, 'some'), 64 * MIB);
  const blocks = async (): Promise<number> => (await stat(imageOf(disk))).blocks * 512;
  expect(await blocks()).toBeLessThan(0.5 * GB);
  const storage = storageOf(true);
  await storage.grow(disk, 1);
  expect(await blocks()).toBeGreaterThan(GB);
  await storage.unmount(disk);
  await storage.destroy(disk);
});

test('refuses a promised disk that the host has no space for, and leaves nothing', async () => {
  const storage = storageOf(true);
  const disk = { ...volume(), promisedGB: 4 };
  await expect(storage.create(disk, 4, soon())).rejects.toMatchObject({ kind: 'full' });
  expect(await storage.listOwned()).toEqual([]);
});
