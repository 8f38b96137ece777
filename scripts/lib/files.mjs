/** Files of folders, in an order that depends on their names alone. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';

/**
 * Paths of the files of a folder and the folders in it, sorted; none where it does not exist.
 * @param {string} folder
 * @returns {string[]}
 */
export function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  return names.map((name) => path.join(folder, name)).filter((file) => statSync(file).isFile());
}
