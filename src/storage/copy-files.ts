/**
 * All files of a folder into another, with owners, links, holes, times and attributes, down to the device.
 *
 * Whoever writes to the source meanwhile must not lead the copy out of it: `tar` opens each name by the folder that holds it and follows no
 * links, where a copy by paths would walk through a folder that was swapped for a link. What changes or goes under its hands is copied as it
 * was found, or not.
 */
import { spawn } from 'node:child_process';
import { waitForExit, outOfSpace, run } from './layout.ts';

/** Some files changed or went while they were read. */
const TAR_FILES_CHANGED = 1;

/**
 * The processes that copy die with this one, and when the copy is called off they are over when that is told: whoever comes after begins
 * anew, and two at once would mix.
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
  // Theirs alone: what is copied does not pass through this process.
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
