/**
 * Removes a data folder or a disk pool. Unmounts its disks first, since a mounted folder can't be
 * removed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/** The kernel escapes space, tab, newline and backslash in octal. */
const unescapeOctal = (/** @type {string} */ text) =>
  text.replace(/\\([0-7]{3})/g, (_, digits) => String.fromCodePoint(Number.parseInt(digits, 8)));

/**
 * Leaves the folder if it is a mount point, or has other files than `names`.
 *
 * @param {string} folder absolute, without symlinks
 * @param {readonly string[]} [names] of files and folders in it; default: all
 */
export function removeDataFolder(folder, names) {
  const points = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => unescapeOctal(line.split(' ')[4] ?? ''))
    .filter((point) => isInside(folder, names, point));
  // Innermost first.
  for (const point of points.toReversed()) execFileSync('umount', [point]);
  for (const device of readdirSync('/sys/block').filter((name) => name.startsWith('loop'))) {
    const backing = `/sys/block/${device}/loop/backing_file`;
    const isAttached = () => existsSync(backing) && isInside(folder, names, readFileSync(backing, 'utf8').trimEnd());
    if (!isAttached()) continue;
    try {
      execFileSync('losetup', ['-d', `/dev/${device}`]);
    } catch (error) {
      // The kernel may detach an unmounted device first.
      if (isAttached()) throw error;
    }
  }
  if (!existsSync(folder)) return;
  for (const name of names ?? readdirSync(folder)) rmSync(path.join(folder, name), { recursive: true, force: true });
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && ['EBUSY', 'ENOTEMPTY'].includes(String(error.code))))
      throw error;
  }
}

const isInside = (
  /** @type {string} */ folder,
  /** @type {readonly string[] | undefined} */ names,
  /** @type {string} */ file,
) =>
  file.startsWith(`${folder}/`) &&
  (names === undefined || names.includes(file.slice(folder.length + 1).split('/')[0] ?? ''));
