import { link, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeDirectoryStorage } from '../../../src/storage/directory/directory.ts';
import { describeHostStorage, makeStorageFixture } from '../../conformance/host-storage.ts';
import { soon, used, volume } from '../../conformance/storage.ts';

describeHostStorage('directory', async (at) => makeDirectoryStorage(at));

test('usage counts allocated blocks, each hard link once, and tolerates files that vanish', async () => {
  const { storage } = await makeStorageFixture(async (at) => makeDirectoryStorage(at));
  const disk = volume();
  await storage.create(disk, 1, soon());
  const folder = await storage.mount(disk);
  expect(await used(storage, disk)).toBe(0);
  await mkdir(join(folder, 'deep', 'er'), { recursive: true });
  await writeFile(join(folder, 'deep', 'er', 'one'), Buffer.alloc(1024 ** 2, 1));
  const once = await used(storage, disk);
  expect(once).toBeGreaterThanOrEqual(1024 ** 2);
  for (let count = 0; count < 5; count++) await link(join(folder, 'deep', 'er', 'one'), join(folder, `link${count}`));
  expect((await used(storage, disk)) - once).toBeLessThan(64 * 1024);
  let churning = true;
  const churn = (async () => {
    for (let count = 0; churning; count++) {
      await writeFile(join(folder, `churn${count % 50}`), 'x');
      await rm(join(folder, `churn${(count + 25) % 50}`), { force: true });
    }
  })();
  for (let count = 0; count < 30; count++) expect(await used(storage, disk)).toBeGreaterThanOrEqual(1024 ** 2);
  churning = false;
  await churn;
});
