/**
 * Copies all files between folders, with owners, links, holes, times, attributes and devices.
 *
 * An instance that writes to the source must not lead the copy elsewhere. `tar` opens names
 * relative to their folder and follows no links; a copy by paths would follow a folder swapped for
 * a link. Files that change during the copy are copied as found, or skipped.
 */
import { spawn } from 'node:child_process';
import { waitForExit, outOfSpace, run } from './layout.ts';

/** Exit code of tar: some files changed or vanished during the read. */
const TAR_FILES_CHANGED = 1;

/**
 * Kills the copying processes with this process. After an abort both have exited before the
 * rejection, since a retry would otherwise mix two copies.
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
  // Closes our end of the pipe between the two processes.
  reader.stdout.destroy();
  const stop = (): void => {
    for (const one of [reader, writer]) one.kill('SIGKILL');
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
