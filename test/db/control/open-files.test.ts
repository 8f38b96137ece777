/** Opening a volume's files waits for the disk's mutex, and is refused after too long. */
import { expect, test } from 'vitest';
import { withDiskMutex } from '../../../src/control/storage/disks.ts';
import { makeOpenFiles } from '../../../src/control/storage/mounts.ts';
import { regionId, volumeId } from '../../../src/domain/kernel/ids.ts';
import type { Storage } from '../../../src/storage/contract.ts';
import { folderFiles } from '../../../src/storage/files.ts';

const volume = { id: volumeId('v'), regionId: regionId('r') };
const disk = { kind: 'volume', id: volume.id } as const;
const never = new AbortController().signal;

function fixture() {
  const late = new AbortController();
  const did: string[] = [];
  const files = folderFiles('/disks/v/files');
  const storage: Pick<Storage, 'files'> = {
    async files() {
      did.push('open');
      return files;
    },
  };
  const located = { ...disk, storage: storage as Storage };
  const open = makeOpenFiles({ locate: async () => located, time: { deadline: () => late.signal } });
  return { open, files, did, late, before: (fn: () => Promise<void>) => withDiskMutex(located, fn, never) };
}

test("opens after the operation that holds the disk's mutex", async () => {
  const { open, files, did, before } = fixture();
  const { promise, resolve } = Promise.withResolvers<void>();
  const grow = before(() => promise.then(() => void did.push('grow')));
  const opened = open(volume, never);
  resolve();
  expect(await opened).toBe(files);
  await grow;
  expect(did).toEqual(['grow', 'open']);
});

test('refuses with a retry time when the mutex is held too long, and opens nothing later', async () => {
  const { open, did, late, before } = fixture();
  const { promise, resolve } = Promise.withResolvers<void>();
  const copy = before(() => promise);
  const opened = open(volume, never);
  late.abort(new Error('too late'));
  await expect(opened).rejects.toMatchObject({ code: 'unavailable', retryAfterS: 5 });
  resolve();
  await copy;
  await before(async () => void did.push('next'));
  expect(did).toEqual(['next']);
});

test("rejects with the abort's reason while waiting", async () => {
  const { open, before } = fixture();
  const { promise, resolve } = Promise.withResolvers<void>();
  const copy = before(() => promise);
  const cut = new AbortController();
  const opened = open(volume, cut.signal);
  cut.abort(new Error('it is being deleted'));
  await expect(opened).rejects.toThrow('it is being deleted');
  resolve();
  await copy;
});
