/** A data folder that tests and benches are done with: the disks in it are unmounted first, or it could not be removed. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';

/** @param {string} folder absolute, with nothing in its path that a mount table writes otherwise */
export function removeDataFolder(folder) {
  const points = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((point) => point.startsWith(`${folder}/`));
  // The innermost first.
  for (const point of points.toReversed()) execFileSync('umount', [point]);
  rmSync(folder, { recursive: true, force: true });
}
