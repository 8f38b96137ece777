/**
 * Removes a data folder or a disk pool. Unmounts its disks first, since a mounted folder can't be
 * removed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';

/** @param {string} folder absolute, with nothing in its path that a mount table writes otherwise */
export function removeDataFolder(folder) {
  const points = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((point) => point.startsWith(`${folder}/`));
  // Innermost first.
  for (const point of points.toReversed()) execFileSync('umount', [point]);
  for (const device of readdirSync('/sys/block').filter((name) => name.startsWith('loop'))) {
    const backing = `/sys/block/${device}/loop/backing_file`;
    const isAttached = () => existsSync(backing) && readFileSync(backing, 'utf8').startsWith(`${folder}/`);
    if (!isAttached()) continue;
    try {
      execFileSync('losetup', ['-d', `/dev/${device}`]);
    } catch (error) {
      // The kernel may detach an unmounted device first.
      if (isAttached()) throw error;
    }
  }
  rmSync(folder, { recursive: true, force: true });
}
