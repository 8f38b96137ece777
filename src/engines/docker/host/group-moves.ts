/**
 * # Moves into control groups
 *
 * Each start of a container and of a command moves processes into control groups. The kernel lets a
 * move wait for all forks of the host, also those of a fork bomb whose processes wait for a
 * processor: seconds for each of a start's dozen moves. From Linux 6.18 on, hierarchies with
 * `favordynmods` wait for forks of the moved process alone; one such hierarchy suffices.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { release } from 'node:os';
import { promisify } from 'node:util';
import { errorText } from '../../../domain/kernel/unknown-error.ts';

const OPTION = 'favordynmods';
const FIRST_KERNEL = [6, 18] as const;
const MOUNT_MS = 10_000;

/** Returns why the hierarchy could not be mounted; null if it was, or if the kernel cannot help. */
export async function ensureFreeMoves(): Promise<string | null> {
  const command = remountCommand(await readFile('/proc/self/mounts', 'utf8'), release());
  try {
    if (command !== null) await promisify(execFile)('mount', command, { timeout: MOUNT_MS });
    return null;
  } catch (error) {
    return errorText(error).trim();
  }
}

/** Arguments of mount(8), all options again; null: nothing to do, or the kernel cannot help. */
export function remountCommand(mounts: string, kernel: string): string[] | null {
  const [major = 0, minor = 0] = kernel.split('.').map(Number);
  const [firstMajor, firstMinor] = FIRST_KERNEL;
  const [, folder, options] = /^\S+ (\S+) cgroup2 (\S+) /m.exec(mounts) ?? [];
  if (major < firstMajor || (major === firstMajor && minor < firstMinor)) return null;
  if (folder === undefined || options === undefined || options.split(',').includes(OPTION)) return null;
  return ['-o', `remount,${options},${OPTION}`, folder];
}
