/** The queue of uploads, and the paths that it fills. */
import { expect, test } from 'vitest';
import {
  crumbsOf,
  folderOf,
  foldersFor,
  joined,
  lastNameOf,
  visible,
} from '../../../console/src/pages/volumes/files/paths.ts';
import {
  makeUploads,
  type SendOptions,
  type Upload,
  type Uploads,
} from '../../../console/src/pages/volumes/files/uploads.ts';
import { ApiError } from '../../../src/contract/client.ts';

interface Sending extends SendOptions {
  path: string;
  end: (error?: unknown) => void;
}

/** Sends nothing: each transfer ends when the test says so. */
function withQueue() {
  const sendings: Sending[] = [];
  const done: string[] = [];
  const uploads = makeUploads({
    send: (_volumeId, path, _file, options) =>
      new Promise((resolve, reject) => {
        options.signal.addEventListener('abort', () => reject(new Error('aborted')));
        sendings.push({ path, ...options, end: (error) => (error === undefined ? resolve() : reject(error)) });
      }),
    onDone: (volumeId) => done.push(volumeId),
  });
  return { sendings, done, uploads };
}

const file = new Blob(['0123456789']);
const add = (uploads: Uploads, ...paths: string[]): void =>
  uploads.add(
    'v',
    paths.map((path) => ({ path, file })),
  );
const states = (uploads: Uploads): Record<string, Upload['state']> =>
  Object.fromEntries(uploads.list().map(({ path, state }) => [path, state]));
const keyOf = (uploads: Uploads, path: string): number => uploads.list().find((one) => one.path === path)?.key ?? -1;
const nameTaken = new ApiError('the name is taken', { status: 412, code: 'precondition_failed' });
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('sends three files at a time, and the next when one has ended', async () => {
  const { sendings, done, uploads } = withQueue();
  add(uploads, 'a', 'b', 'c', 'd', 'e');
  expect(sendings.map(({ path }) => path)).toEqual(['a', 'b', 'c']);
  sendings[1]?.end();
  await settled();
  expect(sendings.map(({ path }) => path)).toEqual(['a', 'b', 'c', 'd']);
  expect(states(uploads)).toEqual({ a: 'sending', b: 'done', c: 'sending', d: 'sending', e: 'waiting' });
  expect(done).toEqual(['v']);
});

test('asks before it replaces a file, and replaces it only after the answer', async () => {
  const { sendings, uploads } = withQueue();
  add(uploads, 'a');
  expect(sendings[0]?.isReplacing).toBe(false);
  sendings[0]?.end(nameTaken);
  await settled();
  expect(states(uploads)).toEqual({ a: 'asks' });
  uploads.replace([keyOf(uploads, 'a')]);
  expect(sendings[1]).toMatchObject({ path: 'a', isReplacing: true });
  sendings[1]?.end();
  await settled();
  expect(states(uploads)).toEqual({ a: 'done' });
});

test('keeps the file that is there when the person says so', async () => {
  const { sendings, uploads } = withQueue();
  add(uploads, 'a');
  sendings[0]?.end(nameTaken);
  await settled();
  uploads.cancel(keyOf(uploads, 'a'));
  expect(states(uploads)).toEqual({ a: 'cancelled' });
  expect(sendings).toHaveLength(1);
});

test('cancels a transfer under way, and one that waits', async () => {
  const { sendings, uploads } = withQueue();
  add(uploads, 'a', 'b', 'c', 'd');
  uploads.cancel(keyOf(uploads, 'd'));
  uploads.cancel(keyOf(uploads, 'a'));
  await settled();
  expect(sendings[0]?.signal.aborted).toBe(true);
  expect(states(uploads)).toEqual({ a: 'cancelled', b: 'sending', c: 'sending', d: 'cancelled' });
  expect(sendings).toHaveLength(3);
});

test('tries a failed upload again when asked, and forgets what has ended', async () => {
  const { sendings, uploads } = withQueue();
  add(uploads, 'a', 'b');
  sendings[0]?.end(new ApiError('the volume is full', { status: 507, code: 'volume_full' }));
  await settled();
  expect(uploads.list()[0]).toMatchObject({ state: 'failed', error: { message: 'the volume is full' } });
  uploads.retry(keyOf(uploads, 'a'));
  sendings[2]?.end();
  await settled();
  uploads.clear();
  expect(states(uploads)).toEqual({ b: 'sending' });
});

test('reports progress in steps that can be seen', () => {
  const { sendings, uploads } = withQueue();
  let shown = 0;
  uploads.subscribe(() => (shown += 1));
  uploads.add('v', [{ path: 'a', file: new Blob(['x'.repeat(10_000)]) }]);
  const before = shown;
  for (let sent = 1; sent <= 49; sent += 1) sendings[0]?.onProgress(sent);
  expect(shown).toBe(before);
  sendings[0]?.onProgress(50);
  expect(uploads.list()[0]?.sentBytes).toBe(50);
});

test('knows the folders of a path', () => {
  expect(joined('', 'a')).toBe('a');
  expect(joined('a/b', 'c')).toBe('a/b/c');
  expect(lastNameOf('a/b/c')).toBe('c');
  expect(folderOf('a/b/c')).toBe('a/b');
  expect(folderOf('c')).toBe('');
  expect(crumbsOf('')).toEqual([]);
  expect(crumbsOf('a/b')).toEqual([
    { name: 'a', path: 'a' },
    { name: 'b', path: 'a/b' },
  ]);
});

test('creates the folders of a drop once, parents first, and none that are there', () => {
  const files = ['here/x/y/1', 'here/x/2', 'here/3', 'here/x/y/4'];
  expect(foldersFor(files, 'here')).toEqual(['here/x', 'here/x/y']);
  expect(foldersFor(['a/1', '2'], '')).toEqual(['a']);
});

test('characters that hide or reorder a name are shown', () => {
  expect(visible('photo\u202Egpj.exe')).toBe(String.raw`photo\u{202e}gpj.exe`);
  expect(visible('a\nb\u0000')).toBe(String.raw`a\u{a}b\u{0}`);
  expect(visible('Übung 数据 👩‍🔬.txt')).toBe('Übung 数据 👩‍🔬.txt');
});
