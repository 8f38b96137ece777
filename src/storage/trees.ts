/** Work on whole trees of files, by programs of the host: a walk here would block this process. */
import { execFile, spawn } from 'node:child_process';
import { lstat } from 'node:fs/promises';
import { onAbort } from '../async/abort.ts';
import type { DiskEntry } from '../domain/storage/disk.ts';
import { DU_BLOCK, largestOf } from './largest-entries.ts';
import { outOfSpace, run, waitForExit } from './layout.ts';

const TAR_FILES_CHANGED = 1;
/** Block size of stat in bytes. */
const STAT_BLOCK = 512;
const LEVELS = 2;

/**
 * Copies owners, links, holes, times, attributes and devices too. `tar` follows no links, so an
 * instance writing meanwhile can't redirect the copy; files in change are copied as found, or
 * skipped. The processes die with this one; an abort waits for both, or a retry would mix two
 * copies.
 */
export async function copyFiles(from: string, to: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const format = ['--format=posix', '--sparse', '--xattrs', '--xattrs-include=*', '--acls', '--numeric-owner'];
  const tar = (args: string[]): string[] => ['--pdeathsig', 'KILL', 'env', 'LC_ALL=C', 'tar', ...format, ...args];
  const reader = spawn('setpriv', tar(['--create', '--one-file-system', '--directory', from, '--file=-', '.']), {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const writer = spawn('setpriv', tar(['--extract', '--preserve-permissions', '--directory', to, '--file=-']), {
    stdio: [reader.stdout, 'ignore', 'pipe'],
  });
  reader.stdout.destroy();
  const unsubscribe = onAbort(signal, () => {
    for (const child of [reader, writer]) child.kill('SIGKILL');
  });
  const exits = Promise.all([waitForExit(reader), waitForExit(writer)]);
  const [read, written] = await exits.finally(unsubscribe);
  signal.throwIfAborted();
  if (/No space left on device/.test(written.stderr)) throw outOfSpace(written.stderr);
  const isRead = read.code === 0 || read.code === TAR_FILES_CHANGED;
  if (!isRead || written.code !== 0)
    throw new Error(`${from} could not be copied: ${isRead ? written.stderr : read.stderr}`);
  await run('sync', ['--file-system', to]);
}

/** Allocated bytes, hard links counted once. `du` prints a sum even if files vanish meanwhile. */
export async function usedBytes(folder: string, signal: AbortSignal): Promise<number | null> {
  const stat = await lstat(folder).catch(() => null);
  if (stat === null) return null;
  return new Promise((resolve, reject) => {
    execFile('du', ['-skx', '--', folder], { signal }, (error, stdout) => {
      if (signal.aborted) return reject(error ?? new Error('aborted'));
      const blocks = /^(\d+)\s/.exec(stdout)?.[1];
      resolve(blocks === undefined ? null : Math.max(0, Number(blocks) * DU_BLOCK - stat.blocks * STAT_BLOCK));
    });
  });
}

/** Finds the largest entries, two levels deep. */
export async function findLargestEntries(folder: string, signal: AbortSignal): Promise<DiskEntry[]> {
  const entries = await largestOf(runDu(folder, signal), folder);
  signal.throwIfAborted();
  return entries;
}

/** Yields NUL-terminated lines, since names may contain newlines. */
async function* runDu(folder: string, signal: AbortSignal): AsyncGenerator<string> {
  const args = ['-n', '19', 'du', '-axk0', `--max-depth=${LEVELS}`, '--', folder];
  const child = spawn('nice', args, { signal, stdio: ['ignore', 'pipe', 'ignore'] });
  // The end of the output or the signal reports errors.
  child.on('error', () => {});
  child.stdout.setEncoding('utf8');
  let rest = '';
  for await (const chunk of child.stdout) {
    const lines = (rest + String(chunk)).split('\0');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
