/**
 * Conformance suite of `DiskFiles`, on a disk in a folder of this host: files by path, while root
 * inside plants links, pipes and devices, and swaps them during the walk. `escape` represents the
 * host: a test fails when anything in it was read, changed or created.
 */
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile as put,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { atLevel } from '../fixtures/level.ts';
import { FileFault, type DiskFiles, type OpenFile, type Upload } from '../../src/storage/files.ts';

export interface FilesAccess {
  /** Files of a disk in the folder `root`, whose parent is not the disk's. */
  open(root: string): DiskFiles;
  /** Names of incomplete uploads. */
  uploadsLeft(root: string): Promise<string[]>;
  /** Longest pause between two swaps of a race: in a tight loop no slow operation would succeed. */
  swapPauseMs: number;
}

export function describeDiskFiles(access: FilesAccess): void {
  let base: string;
  let root: string;
  let escape: string;
  let files: DiskFiles;
  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'berth-files-'));
    root = join(base, 'disk', 'files');
    escape = join(base, 'escape');
    await mkdir(root, { recursive: true });
    files = access.open(root);
    await mkdir(escape);
    await put(join(escape, 'secret'), 'secret');
    await mkdir(join(escape, 'tree'));
    await put(join(escape, 'tree', 'leaf'), 'leaf');
    await mkdir(join(escape, 'empty'));
  });
  afterEach(() => rm(base, { recursive: true, force: true }));

  const never = new AbortController().signal;

  async function* pieces(...all: (string | Buffer)[]): AsyncGenerator<Uint8Array, void> {
    for (const piece of all) yield Buffer.from(piece);
  }

  const upload = (source: AsyncIterable<Uint8Array>, more: Partial<Upload> = {}): Upload => ({
    source,
    sizeBytes: null,
    maxBytes: 1024 ** 4,
    onlyNew: false,
    ...more,
  });

  const write = (path: string, source: AsyncIterable<Uint8Array> = pieces('new'), more: Partial<Upload> = {}) =>
    files.write(path, upload(source, more), never);

  const withFile = <T>(path: string, use: (file: OpenFile) => Promise<T>): Promise<T> => files.read(path, use, never);

  const read = (path: string, start = 0, end = Number.POSITIVE_INFINITY): Promise<string> =>
    withFile(path, async (file) => {
      const got: Uint8Array[] = [];
      for await (const piece of file.bytes(start, Math.min(end, file.sizeBytes))) got.push(piece);
      return Buffer.concat(got).toString();
    });

  const list = (path: string, limit = 1000, after: string | null = null) => files.list(path, { limit, after }, never);

  const names = async (path: string): Promise<string[]> => (await list(path)).entries.map(({ name }) => name);
  const remove = (path: string, recursive = false) => files.remove(path, { recursive }, never);
  const makeFolder = (path: string): Promise<void> => files.makeFolder(path, never);
  const uploadsLeft = (): Promise<string[]> => access.uploadsLeft(root);

  /** All that can be asked of one path. */
  const everyVerb: Record<string, (path: string) => Promise<unknown>> = {
    list,
    read,
    write,
    makeFolder,
    remove,
    'remove all': (path) => remove(path, true),
  };

  const expectEscapeUntouched = async (): Promise<void> => {
    expect((await readdir(escape, { recursive: true })).toSorted()).toEqual(['empty', 'secret', 'tree', 'tree/leaf']);
    expect(await readFile(join(escape, 'secret'), 'utf8')).toBe('secret');
  };

  describe('reading and writing', () => {
    test("reads a written file in whole or part, replaces it, and makes it root's and readable by all", async () => {
      await makeFolder('a/b');
      expect(await write('a/b/c', pieces('hello ', 'world'))).toMatchObject({ sizeBytes: 11, created: true });
      expect(await read('a/b/c')).toBe('hello world');
      expect(await read('a/b/c', 6, 9)).toBe('wor');
      expect(await write('a/b/c', pieces())).toMatchObject({ sizeBytes: 0, created: false });
      expect(await read('a/b/c')).toBe('');
      const { uid, gid, mode } = await lstat(join(root, 'a/b/c'));
      expect([uid, gid, mode & 0o7777]).toEqual([process.getuid?.(), process.getgid?.(), 0o644]);
      expect(((await lstat(join(root, 'a/b'))).mode & 0o7777).toString(8)).toBe('755');
      expect(await uploadsLeft()).toEqual([]);
    });

    test('each change makes a new version, also with the same size and time', async () => {
      const version = (): Promise<string> => withFile('f', async (file) => file.version);
      const before = [(await write('f', pieces('one'))).version];
      expect(await version()).toBe(before[0]);
      await write('f', pieces('two'));
      expect(before).not.toContain(await version());
      before.push(await version());
      execFileSync('cp', ['-p', join(root, 'f'), join(escape, 'same-times')]);
      await put(join(root, 'f'), 'owt');
      execFileSync('touch', ['-r', join(escape, 'same-times'), join(root, 'f')]);
      expect(before).not.toContain(await version());
    });

    test('reads a hard link as a file; a write replaces only the written name', async () => {
      await write('f', pieces('shared'));
      await link(join(root, 'f'), join(root, 'g'));
      expect(await read('g')).toBe('shared');
      await write('g', pieces('own'));
      expect(await read('f')).toBe('shared');
    });

    test('throws when a file is truncated while it is read', async () => {
      await write('f', pieces(Buffer.alloc(2 ** 20, 1)));
      const shortened = withFile('f', async (file) => {
        for await (const _ of file.bytes(0, file.sizeBytes)) await truncate(join(root, 'f'), 1000);
      });
      await expect(shortened).rejects.toThrow('became shorter');
    });

    test('an interrupted upload leaves the previous file and no partial one', async () => {
      await write('f', pieces('before'));
      async function* broken(): AsyncGenerator<Uint8Array, void> {
        yield Buffer.alloc(2 ** 20);
        await expect.poll(uploadsLeft).toHaveLength(1);
        expect(await names('')).toEqual(['f']);
        throw new Error('the client left');
      }
      await expect(write('f', broken())).rejects.toThrow('the client left');
      await expect(write('f', pieces('abc'), { sizeBytes: 4 })).rejects.toThrow(
        'only 3 of the announced 4 bytes arrived',
      );
      expect(await read('f')).toBe('before');
      expect(await uploadsLeft()).toEqual([]);
    });

    test('concurrent uploads to one path leave one complete file; with onlyNew exactly one succeeds', async () => {
      const contents = Array.from({ length: 8 }, () => randomBytes(300_000));
      await Promise.all(contents.map((one) => write('f', pieces(one.subarray(0, 100_000), one.subarray(100_000)))));
      const now = await readFile(join(root, 'f'));
      expect(contents.filter((one) => one.equals(now))).toHaveLength(1);
      const tries = await Promise.allSettled(contents.map((one) => write('new', pieces(one), { onlyNew: true })));
      expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      for (const one of tries) if (one.status === 'rejected') expect(one.reason).toMatchObject({ kind: 'exists' });
      const winner = contents[tries.findIndex(({ status }) => status === 'fulfilled')];
      expect(winner?.equals(await readFile(join(root, 'new')))).toBe(true);
      expect(await uploadsLeft()).toEqual([]);
    });

    test('refuses an upload over the limit as full: by its announced size before the first byte, else at the limit', async () => {
      const untouched = upload(
        (async function* () {
          yield await Promise.reject<Uint8Array>(new Error('no byte may be read'));
        })(),
        { sizeBytes: 101, maxBytes: 100 },
      );
      await expect(files.write('f', untouched, never)).rejects.toMatchObject({ kind: 'full' });
      const passing = write('f', pieces(Buffer.alloc(60), Buffer.alloc(60)), { maxBytes: 100 });
      await expect(passing).rejects.toMatchObject({ kind: 'full' });
      expect(await names('')).toEqual([]);
      expect(await uploadsLeft()).toEqual([]);
    });
  });

  describe('nothing outside the disk is reachable', () => {
    const outside = (): string => join(escape, 'secret');

    test.each(Object.keys(everyVerb))('%s refuses an invalid path', async (verb) => {
      for (const path of [
        '..',
        '../escape/secret',
        'a/../../../escape',
        '/etc/passwd',
        'a//b',
        './a',
        'a\0',
        '\ud800',
        'n'.repeat(256),
      ]) {
        await expect(everyVerb[verb]?.(path), path).rejects.toMatchObject({ kind: 'badPath' });
      }
      await expectEscapeUntouched();
    });

    test.each(Object.keys(everyVerb))('%s follows no symbolic link within a path', async (verb) => {
      await symlink(escape, join(root, 'out'));
      await symlink('../../escape', join(root, 'up'));
      await symlink('.', join(root, 'here'));
      await symlink('/proc/self/root', join(root, 'host'));
      for (const path of ['out/secret', 'up/secret', 'here/x', 'host/etc/passwd', 'out/deeper/x'])
        await expect(everyVerb[verb]?.(path), path).rejects.toMatchObject({ kind: 'wrongKind' });
      await expectEscapeUntouched();
      expect(await names('')).toEqual(['here', 'host', 'out', 'up']);
    });

    test('a symbolic link at the end of a path is listed and deleted as a link, and never followed', async () => {
      await symlink(outside(), join(root, 'file'));
      await symlink(escape, join(root, 'folder'));
      await symlink('nowhere', join(root, 'dangling'));
      await symlink('loop', join(root, 'loop'));
      const all = ['dangling', 'file', 'folder', 'loop'];
      expect((await list('')).entries.map(({ name, kind }) => [name, kind])).toEqual(all.map((name) => [name, 'link']));
      for (const name of all) {
        for (const verb of ['list', 'read', 'write', 'makeFolder'])
          await expect(everyVerb[verb]?.(name), `${verb} ${name}`).rejects.toMatchObject({ kind: 'wrongKind' });
        await expect(write(name, pieces('x'), { onlyNew: true })).rejects.toMatchObject({ kind: 'wrongKind' });
      }
      for (const name of all) await remove(name, name === 'folder');
      expect(await names('')).toEqual([]);
      await expectEscapeUntouched();
    });

    test('deletes a folder with the symbolic links in it, not their targets', async () => {
      await makeFolder('a/b');
      await symlink(escape, join(root, 'a/b/out'));
      await symlink(outside(), join(root, 'a/file'));
      await expect(remove('a')).rejects.toMatchObject({ kind: 'notEmpty' });
      await remove('a', true);
      expect(await names('')).toEqual([]);
      await expectEscapeUntouched();
    });

    test('lists and deletes a pipe, a socket and a device, and never opens one', async () => {
      execFileSync('mkfifo', [join(root, 'pipe')]);
      execFileSync('mknod', [join(root, 'zero'), 'c', '1', '5']);
      const { createServer } = await import('node:net');
      const server = createServer().listen(join(root, 'socket'));
      await once(server, 'listening');
      for (const name of ['pipe', 'socket', 'zero']) {
        for (const verb of ['list', 'read', 'write', 'makeFolder'])
          await expect(everyVerb[verb]?.(name), `${verb} ${name}`).rejects.toMatchObject({ kind: 'wrongKind' });
        await expect(everyVerb['read']?.(`${name}/x`)).rejects.toMatchObject({ kind: 'wrongKind' });
      }
      expect((await list('')).entries.map(({ name, kind }) => [name, kind])).toEqual([
        ['pipe', 'other'],
        ['socket', 'other'],
        ['zero', 'other'],
      ]);
      for (const name of ['pipe', 'socket', 'zero']) await remove(name);
      server.close();
    });

    /** Runs a process that swaps `victim` for a symbolic link to the host, and back, in a loop. */
    async function withSwapper(target: string, race: () => Promise<void>): Promise<void> {
      const swap = `
      const fs = require('node:fs');
      process.chdir(${JSON.stringify(root)});
      // What is made in the name while it is free is in the way of the folder that comes back.
      const clear = () => { try { fs.rmSync('victim', { recursive: true, force: true }); } catch {} };
      const putBack = () => { try { fs.renameSync('aside', 'victim'); return true; } catch { return false; } };
      const clock = new Int32Array(new SharedArrayBuffer(4));
      const pause = () => ${access.swapPauseMs} && Atomics.wait(clock, 0, 0, Math.random() * ${access.swapPauseMs});
      for (;;) {
        pause();
        fs.renameSync('victim', 'aside');
        try { fs.symlinkSync(${JSON.stringify(target)}, 'victim'); } catch {}
        pause();
        do clear(); while (!putBack());
      }`;
      const swapper = spawn(process.execPath, ['-e', swap], { stdio: 'ignore' });
      const ended = once(swapper, 'close');
      try {
        await race();
        expect(swapper.exitCode, 'the swapper ran until the end').toBeNull();
      } finally {
        swapper.kill('SIGKILL');
        await ended;
      }
    }

    /** Repeats the operation for a second; counts outcomes by kind. */
    async function race(fn: (n: number) => Promise<unknown>): Promise<Record<string, number>> {
      const counts: Record<string, number> = {};
      const [untilMs, atLatestMs] = [performance.now() + 1_000, performance.now() + 8_000];
      const goesOn = (nowMs: number): boolean =>
        nowMs < untilMs || (counts['done'] === undefined && nowMs < atLatestMs);
      for (let n = 0; goesOn(performance.now()); n += 1) {
        const how = await fn(n).then(
          () => 'done',
          (error: unknown) => (error instanceof FileFault ? error.kind : String(error)),
        );
        counts[how] = (counts[how] ?? 0) + 1;
      }
      return counts;
    }

    test('a folder swapped for a symbolic link during the walk is never followed, by any operation', async () => {
      await makeFolder('victim/empty');
      await write('victim/secret', pieces('mine'));
      await withSwapper(escape, async () => {
        const again = async (path: string, recursive: boolean): Promise<void> => {
          await makeFolder(path);
          await remove(path, recursive);
        };
        const met = [
          await race(async () => expect(await read('victim/secret')).toBe('mine')),
          await race(async () => expect(await names('victim')).not.toContain('tree')),
          await race((n) => write(`victim/new-${n % 10}`)),
          await race((n) => makeFolder(`victim/folder-${n % 10}`)),
          await race(() => again('victim/empty', false)),
          await race(() => again('victim/tree', true)),
        ];
        for (const counts of met) {
          // Both sides of the swap occurred, and nothing else.
          expect(counts['done'], JSON.stringify(counts)).toBeGreaterThan(0);
          expect(
            Object.keys(counts).filter((how) => !['done', 'wrongKind', 'notFound', 'notEmpty'].includes(how)),
          ).toEqual([]);
        }
        expect(met.reduce((sum, counts) => sum + (counts['wrongKind'] ?? 0), 0)).toBeGreaterThan(0);
      });
      await expectEscapeUntouched();
    });

    test('a file swapped for a symbolic link is opened as the file or not at all', async () => {
      await write('victim', pieces('mine'));
      await withSwapper(join(escape, 'secret'), async () => {
        const met = [
          await race(async () => expect(await read('victim')).toBe('mine')),
          await race(async () => {
            const entry = (await list('')).entries.find(({ name }) => name === 'victim');
            expect(entry?.kind === 'file' ? entry.sizeBytes : 4).toBe(4);
          }),
          await race(() => write('victim', pieces('mine'))),
        ];
        for (const counts of met)
          expect(Object.keys(counts).filter((how) => !['done', 'wrongKind', 'notFound'].includes(how))).toEqual([]);
      });
      await expectEscapeUntouched();
    });
  });

  describe('listing a folder', () => {
    test('returns entries page by page, in byte order of their names, with their kinds', async () => {
      for (const name of ['b', 'B', 'é', 'a', '🚀', '~', 'a b']) await write(name, pieces(name));
      await makeFolder('Z');
      const all = ['B', 'Z', 'a', 'a b', 'b', '~', 'é', '🚀'];
      expect(await names('')).toEqual(all);
      const first = await list('', 3);
      expect(first.entries).toEqual([
        expect.objectContaining({ name: 'B', kind: 'file', sizeBytes: 1, mode: '0644', reachable: true }),
        expect.objectContaining({ name: 'Z', kind: 'folder', mode: '0755' }),
        expect.objectContaining({ name: 'a', kind: 'file' }),
      ]);
      const paged: string[] = [];
      for (let after: string | null = null; ;) {
        const page = await list('', 3, after);
        paged.push(...page.entries.map(({ name }) => name));
        after = page.next;
        if (after === null) break;
      }
      expect(paged).toEqual(all);
      expect((await list('', 8)).next).toBeNull();
      await expect(list('', 8, 'no cursor!')).rejects.toMatchObject({ kind: 'badPath' });
      await expect(list('nothing')).rejects.toMatchObject({ kind: 'notFound' });
      await expect(list('a')).rejects.toMatchObject({ kind: 'wrongKind' });
    });

    test('marks names that are not UTF-8 as unreachable, and pages past them', async () => {
      for (const byte of [0xe9, 0xff]) await put(Buffer.concat([Buffer.from(`${root}/a`), Buffer.from([byte])]), '');
      await write('z');
      const page = await list('', 1);
      expect(page.entries).toEqual([expect.objectContaining({ name: 'a\ufffd', reachable: false })]);
      const second = await list('', 1, page.next);
      expect(second.entries).toEqual([expect.objectContaining({ name: 'a\ufffd', reachable: false })]);
      expect((await list('', 1, second.next)).entries).toEqual([
        expect.objectContaining({ name: 'z', reachable: true }),
      ]);
    });

    test('changes between two pages neither repeat nor hide other entries', async () => {
      for (const name of ['b', 'd', 'f']) await write(name);
      const { next } = await list('', 2);
      await rename(join(root, 'd'), join(root, 'a'));
      await write('c');
      await write('e');
      expect((await list('', 10, next)).entries.map(({ name }) => name)).toEqual(['e', 'f']);
    });

    const many = atLevel({ short: 20_000, long: 100_000 });
    test(`lists a page of ${many} files without blocking the event loop`, async () => {
      execFileSync('sh', ['-c', `mkdir "$0/many" && cd "$0/many" && seq -f %06g 0 ${many - 1} | xargs touch`, root]);
      const nameOf = (nth: number): Buffer => Buffer.from(String(nth).padStart(6, '0'));
      let rounds = 0;
      const nextRound = (): void => {
        rounds += 1;
        timer = setImmediate(nextRound);
      };
      let timer = setImmediate(nextRound);
      const page = await list('many', 1000, nameOf(many / 2 - 1).toString('base64url'));
      clearImmediate(timer);
      expect(page.entries.map(({ name }) => name)).toEqual(
        Array.from({ length: 1000 }, (_, n) => nameOf(many / 2 + n).toString()),
      );
      expect(rounds, 'turns of the event loop meanwhile').toBeGreaterThan(20);
      await remove('many', true);
      const cut = AbortSignal.abort(new Error('the server stops'));
      await mkdir(join(root, 'few'));
      await write('few/one');
      await expect(files.list('few', { limit: 1, after: null }, cut)).rejects.toThrow('the server stops');
    });
  });
}
