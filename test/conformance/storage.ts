/** Conformance suite of storages: `src/storage/contract.ts`. */
import { execFile } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, test, type TestContext } from 'vitest';
import { BYTES_PER_GB, diskKey, type DiskId } from '../../src/domain/storage/disk.ts';
import { StorageFault, type Storage } from '../../src/storage/contract.ts';
import type { DiskFiles, Upload } from '../../src/storage/files.ts';

export const run = promisify(execFile);

export interface StorageFixture {
  storage: Storage;
  /** Runs a shell script in the disk's top folder, as an instance that mounts it; its output. */
  inside(disk: DiskId, script: string): Promise<string>;
}

export const volume = (id: string = randomUUID()): DiskId => ({ kind: 'volume', id });
export const soon = (): AbortSignal => AbortSignal.timeout(60_000);

export const invalidIds = [
  '',
  '.',
  '..',
  '../x',
  'a/../b',
  '/etc',
  'a/b',
  'a//b',
  '.hidden',
  'a\0b',
  '-rf',
  'a\nb',
  '~',
  'ä',
];

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

const write = (files: DiskFiles, path: string, bytes: Uint8Array) => files.write(path, uploadOf(bytes), soon());

const readWhole = (files: DiskFiles, path: string): Promise<Buffer> =>
  files.read(path, async ({ bytes, sizeBytes }) => Buffer.concat(await Array.fromAsync(bytes(0, sizeBytes))), soon());

const namesIn = async (files: DiskFiles, path = ''): Promise<string[]> =>
  (await files.list(path, { limit: 1000, after: null }, soon())).entries.map(({ name }) => name);

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export async function expectFault(call: Promise<unknown>, kind: StorageFault['kind']): Promise<void> {
  const thrown: unknown = await call.then(
    () => expect.fail('should have been refused'),
    (error: unknown) => error,
  );
  expect(thrown).toBeInstanceOf(StorageFault);
  expect(thrown).toMatchObject({ kind });
}

function skipWithoutCopies(context: TestContext, storage: Storage): void {
  const { whyNoCopies } = storage.capabilities();
  context.skip(whyNoCopies !== undefined, `no copies: ${whyNoCopies}`);
}

/** Skips where usage is known only while an instance mounts the disk. */
function skipUnlessMeasured(context: TestContext, storage: Storage): void {
  context.skip(storage.capabilities().usage === 'mounted', 'the usage is known while an instance mounts the disk');
}

export function describeStorage(name: string, makeFixture: () => Promise<StorageFixture>): void {
  describe(`the storage contract: ${name}`, () => {
    test('creates, mounts, observes, lists, unmounts and destroys a disk; every verb is idempotent', async () => {
      const { storage } = await makeFixture();
      const disks: DiskId[] = [
        volume(),
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
        const source = await storage.mount(disk);
        const files = await storage.files(disk);
        await write(files, 'kept', Buffer.from('kept'));
        await storage.create(disk, 1, soon());
        expect(await storage.mount(disk)).toBe(source);
        expect(await namesIn(files)).toEqual(['kept']);
        const { sizeLimit } = storage.capabilities();
        expect(await storage.observe(disk)).toEqual({ kind: 'present', sizeGB: sizeLimit === 'hard' ? 1 : null });
      }
      const listed = (await storage.listOwned()).map(diskKey).toSorted();
      expect(listed).toEqual(disks.map(diskKey).toSorted());
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

    test('a snapshot keeps the files of its moment, without its volume, for each volume made of it', async (context) => {
      const { storage, inside } = await makeFixture();
      skipWithoutCopies(context, storage);
      const [disk, restored, again] = [volume(), volume(), volume()];
      const snapshot: DiskId = { kind: 'snapshot', id: randomUUID() };
      await expectFault(storage.create(snapshot, 1, soon(), disk), 'notFound');
      expect(await storage.observe(snapshot)).toEqual({ kind: 'absent' });
      await storage.create(disk, 1, soon());
      await inside(disk, 'echo first >note && sync');
      await storage.create(snapshot, 1, soon(), disk);
      await storage.create(snapshot, 1, soon(), disk);
      expect((await storage.observe(snapshot)).kind).toBe('present');
      expect((await storage.listOwned()).map(diskKey).toSorted()).toEqual([disk, snapshot].map(diskKey).toSorted());
      await inside(disk, 'echo second >note && sync');
      await storage.create(restored, 1, soon(), snapshot);
      expect(await inside(restored, 'cat note')).toBe('first\n');
      await storage.destroy(disk);
      await storage.create(again, 1, soon(), snapshot);
      await storage.destroy(snapshot);
      await storage.destroy(snapshot);
      expect(await storage.observe(snapshot)).toEqual({ kind: 'absent' });
      expect(await inside(again, 'cat note')).toBe('first\n');
      expect(await inside(restored, 'cat note')).toBe('first\n');
    });

    test.each(invalidIds)('every verb refuses an invalid id: %j', async (id) => {
      const { storage } = await makeFixture();
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
    });

    test('largestEntries reports two levels, by printable names, and ends with its signal', async () => {
      const { storage } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      const files = await storage.files(disk);
      for (const folder of ['runs/one/deep', 'many']) await files.makeFolder(folder, soon());
      await write(files, 'runs/one/deep/file', Buffer.alloc(4_000_000, 1));
      await write(files, 'many/one', Buffer.alloc(500_000, 1));
      await write(files, 'many/two', Buffer.alloc(600_000, 1));
      await write(files, 'a\n\u001b[31mname', Buffer.alloc(2_000_000, 1));
      const found = (await storage.largestEntries(disk, soon())) ?? [];
      expect(found.map(({ path }) => path)).toEqual(['runs/one', 'a??[31mname', 'many', 'many/two', 'many/one']);
      expect(Math.abs((found[0]?.bytes ?? 0) - 4_000_000)).toBeLessThan(100_000);
      await expect(storage.largestEntries(disk, AbortSignal.abort(new Error('called off')))).rejects.toThrow(
        'called off',
      );
      await storage.destroy(disk);
      expect(await storage.largestEntries(disk, soon())).toBeNull();
    });

    test('files survive an unmount, and the usage stays known meanwhile', async (context) => {
      const { storage } = await makeFixture();
      skipUnlessMeasured(context, storage);
      const disk = volume();
      await storage.create(disk, 1, soon());
      expect(await used(storage, disk)).toBeLessThan(100_000);
      const content = randomBytes(8 * 1024 ** 2);
      await write(await storage.files(disk), 'file', content);
      const bytes = await used(storage, disk);
      expect(bytes).toBeGreaterThanOrEqual(8 * 1024 ** 2);
      expect(bytes).toBeLessThan(9 * 1024 ** 2);
      await storage.unmount(disk);
      expect(Math.abs((await used(storage, disk)) - bytes)).toBeLessThan(200_000);
      expect(sha256(await readWhole(await storage.files(disk), 'file'))).toBe(sha256(content));
    });

    test('files are reached without an instance, and survive an unmount', async () => {
      const { storage, inside } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      const before = await storage.files(disk);
      const bytes = randomBytes(300_000);
      await before.makeFolder('a/-b\n', soon());
      await write(before, 'a/-b\n/c d', bytes);
      await storage.unmount(disk);
      const files = await storage.files(disk);
      expect(sha256(await readWhole(files, 'a/-b\n/c d'))).toBe(sha256(bytes));
      const { entries } = await files.list('a', { limit: 10, after: null }, soon());
      expect(entries).toMatchObject([{ name: '-b\n', kind: 'folder', reachable: true }]);
      expect(await inside(disk, 'cat a/*/*| sha256sum')).toContain(sha256(bytes));
      await files.remove('a', { recursive: true }, soon());
      expect(await namesIn(files)).toEqual([]);
    });

    test('a disk grows, also while an instance mounts it, keeps its files, and never shrinks', async (context) => {
      const { storage, inside } = await makeFixture();
      const { whyNoGrowth, sizeLimit } = storage.capabilities();
      context.skip(whyNoGrowth !== undefined, `no growth: ${whyNoGrowth}`);
      const [disk, unused] = [volume(), volume()];
      for (const one of [disk, unused]) await storage.create(one, 1, soon());
      await inside(disk, 'echo kept >note && sync');
      const sizeGB = sizeLimit === 'hard' ? 2 : null;
      for (const one of [disk, unused]) {
        await storage.grow(one, 2);
        await storage.grow(one, 1);
        expect(await storage.observe(one)).toEqual({ kind: 'present', sizeGB });
      }
      expect(await inside(disk, 'cat note')).toBe('kept\n');
      if (sizeLimit === 'hard')
        expect(Number(await inside(disk, "df -Pk . | awk 'END { print $2 }'"))).toBeGreaterThan(1.9 * 2 ** 20);
    });

    test('a copy is exact, independent, and may be larger; copying an absent disk is refused and creates nothing', async (context) => {
      const { storage, inside } = await makeFixture();
      skipWithoutCopies(context, storage);
      const [disk, copy, none] = [volume(), volume(), volume()];
      await storage.create(disk, 1, soon());
      await inside(
        disk,
        `mkdir inner && head -c 3000000 /dev/urandom >inner/file && chmod 640 inner/file && ln inner/file twin &&
        ln -s inner/file soft && chmod 2750 inner && truncate -s 500M hole && sync`,
      );
      const hash = await inside(disk, 'sha256sum <soft');
      await storage.create(copy, 2, soon(), disk);
      expect(await namesIn(await storage.files(copy))).toEqual(['hole', 'inner', 'soft', 'twin']);
      expect(await inside(copy, 'sha256sum <soft')).toBe(hash);
      expect(await inside(copy, '[ twin -ef inner/file ] && stat -c %a inner inner/file')).toBe('2750\n640\n');
      expect(Number(await inside(copy, "du -sk . | awk '{ print $1 }'"))).toBeLessThan(10 * 1024);
      await inside(disk, 'rm twin');
      await storage.destroy(disk);
      expect(await inside(copy, 'stat -c %s twin')).toBe('3000000\n');
      await expectFault(storage.create(none, 1, soon(), disk), 'notFound');
      expect(await storage.observe(none)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([copy]);
    });

    test('an aborted copy leaves nothing and can be repeated', async (context) => {
      const { storage, inside } = await makeFixture();
      skipWithoutCopies(context, storage);
      const [disk, copy] = [volume(), volume()];
      await storage.create(disk, 1, soon());
      await inside(disk, 'i=0; while [ $i -lt 300 ]; do head -c 1000000 /dev/urandom >file$i; i=$((i+1)); done; sync');
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
      expect(await namesIn(await storage.files(copy))).toHaveLength(300);
    });

    test('destroys trees with any modes and names, deeper than the longest path', async () => {
      const { storage, inside } = await makeFixture();
      const disk = volume();
      await storage.create(disk, 1, soon());
      // A path longer than 4,096 characters is made from the inside out.
      await inside(
        disk,
        `mkdir -p closed/inner tip && for odd in closed/inner/file ./-rf 'a
b'; do echo x >"$odd"; done
        chmod 000 closed/inner/file closed/inner closed
        long=$(head -c 200 /dev/zero | tr '\\0' d)
        i=0; while [ $i -lt 40 ]; do mkdir outer && mv tip "outer/$long" && mv outer tip; i=$((i+1)); done`,
      );
      if (storage.capabilities().usage !== 'mounted') expect(await used(storage, disk)).toBeGreaterThan(0);
      await storage.destroy(disk);
      expect(await storage.observe(disk)).toEqual({ kind: 'absent' });
      expect(await storage.listOwned()).toEqual([]);
    });

    test('reports total and free space', async () => {
      const { storage } = await makeFixture();
      const { totalBytes, freeBytes } = await storage.space();
      expect(freeBytes).toBeGreaterThan(0);
      expect(totalBytes).toBeGreaterThanOrEqual(freeBytes);
    });
  });
}
