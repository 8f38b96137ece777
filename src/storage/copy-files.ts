/**
 * All files of a folder into another, with owners, links, holes, times and attributes, down to the device.
 *
 * Whoever writes to the source meanwhile must not lead the copy out of it: `tar` opens each name by the folder that holds it and follows no
 * links, where a copy by paths would walk through a folder that was swapped for a link. What changes or goes under its hands is copied as it
 * was found, or not.
 */
import { spawn } from 'node:child_process';
import { ended, noRoom, run } from './layout.ts';

/** Some files changed or went while they were read. */
const CHANGED = 1;

/**
 * The processes that copy die with this one, and when the copy is called off they are over when that is told: whoever comes after begins
 * anew, and two at once would mix.
 */
export async function copyFiles(from: string, to: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const how = ['--format=posix', '--sparse', '--xattrs', '--xattrs-include=*', '--acls', '--numeric-owner'];
  const tar = (args: string[]): string[] => ['--pdeathsig', 'KILL', 'env', 'LC_ALL=C', 'tar', ...how, ...args];
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
  const ends = Promise.all([ended(reader), ended(writer)]);
  const [read, written] = await ends.finally(() => signal.removeEventListener('abort', stop));
  signal.throwIfAborted();
  if (/No space left on device/.test(written.said)) throw noRoom(written.said);
  const isRead = read.code === 0 || read.code === CHANGED;
  if (!isRead || written.code !== 0)
    throw new Error(`${from} could not be copied: ${isRead ? written.said : read.said}`);
  await run('sync', ['--file-system', to]);
}
