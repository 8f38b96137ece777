/**
 * Copies owners, links, holes, times, attributes and devices too. `tar` follows no links, so an
 * instance writing meanwhile can't redirect the copy; files in change are copied as found, or
 * skipped.
 */
import { spawn } from 'node:child_process';
import { waitForExit, outOfSpace, run } from './layout.ts';

const TAR_FILES_CHANGED = 1;

/** Processes die with this one; an abort waits for both, or a retry would mix two copies. */
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
  const stop = (): void => {
    for (const child of [reader, writer]) child.kill('SIGKILL');
  };
  signal.addEventListener('abort', stop, { once: true });
  const exits = Promise.all([waitForExit(reader), waitForExit(writer)]);
  const [read, written] = await exits.finally(() => signal.removeEventListener('abort', stop));
  signal.throwIfAborted();
  if (/No space left on device/.test(written.stderr)) throw outOfSpace(written.stderr);
  const isRead = read.code === 0 || read.code === TAR_FILES_CHANGED;
  if (!isRead || written.code !== 0)
    throw new Error(`${from} could not be copied: ${isRead ? written.stderr : read.stderr}`);
  await run('sync', ['--file-system', to]);
}
