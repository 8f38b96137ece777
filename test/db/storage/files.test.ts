/** Files of a disk in a folder of this host. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { folderFiles, uploadFolder, type Upload } from '../../../src/storage/files.ts';
import { describeDiskFiles } from '../../conformance/disk-files.ts';

const uploadsLeft = (root: string): Promise<string[]> => readdir(uploadFolder(root)).catch(() => []);

describeDiskFiles({ open: folderFiles, uploadsLeft, swapPauseMs: 0 });

test('an upload removes partial files of a dead server, and none of a running upload', async () => {
  const base = await mkdtemp(join(tmpdir(), 'berth-files-'));
  onTestFinished(() => rm(base, { recursive: true }));
  const root = join(base, 'files');
  await mkdir(root);
  await mkdir(uploadFolder(root));
  await writeFile(join(uploadFolder(root), 'of-a-dead-one.1'), 'half');
  const files = folderFiles(root);
  const never = new AbortController().signal;
  const write = (path: string, source: Upload['source']) =>
    files.write(path, { source, sizeBytes: null, maxBytes: 1024, onlyNew: false }, never);
  async function* slow(): AsyncGenerator<Uint8Array, void> {
    yield Buffer.from('slow');
    await write('fast', fast());
    expect(await uploadsLeft(root)).toHaveLength(1);
  }
  async function* fast(): AsyncGenerator<Uint8Array, void> {
    yield Buffer.from('fast');
  }
  await write('f', slow());
  expect((await readdir(root)).toSorted()).toEqual(['f', 'fast']);
  expect(await uploadsLeft(root)).toEqual([]);
});
