/**
 * `npm run structure [-- COMMIT]`: lines and files of each part, and which folders of control
 * import which, as a Mermaid picture. Arrows against the order are those of the best order found.
 */
import path from 'node:path';
import { readArguments } from './lib/arguments.mjs';
import { capture, runCommand, Unready } from './lib/run.mjs';

const parts = ['src', 'console/src', 'test', 'bench', 'scripts', 'docs'];

/**
 * @param {string[]} args
 * @returns {Promise<string[]>} lines
 */
async function grep(args) {
  const { code, output } = await capture({ command: 'git', args: ['grep', '-I', ...args] });
  if (code !== 0) throw new Unready(`git finds nothing there; name a commit of this repository\n${output}`);
  return output.trim().split('\n');
}

/**
 * Folders below control, each with the folders that its files import.
 *
 * @param {string[]} imports lines `path:import … from '…'`
 */
export function arrowsOf(imports) {
  /** @type {Map<string, Set<string>>} */
  const arrows = new Map();
  /** @param {string} file */
  const folderOf = (file) => file.split('/').slice(2, -1)[0];
  for (const line of imports) {
    const [, file = '', from = ''] = /^([^:]+):.*'(\.[^']+)'/.exec(line) ?? [];
    const [folder, target] = [folderOf(file), folderOf(path.posix.join(path.posix.dirname(file), from))];
    if (folder === undefined) continue;
    const targets = arrows.get(folder) ?? new Set();
    arrows.set(folder, targets);
    const isInside = path.posix.join(path.posix.dirname(file), from).startsWith('src/control/');
    if (isInside && target !== undefined && target !== folder) targets.add(target);
  }
  return arrows;
}

/**
 * Takes folders that import nothing that is left first, else the one with the most importers more
 * than imports.
 *
 * @param {Map<string, Set<string>>} arrows
 */
export function orderOf(arrows) {
  const left = new Set([...arrows.keys()].toSorted());
  const order = [];
  while (left.size > 0) {
    /** @param {string} folder */
    const score = (folder) => {
      const imported = [...(arrows.get(folder) ?? [])].filter((target) => left.has(target)).length;
      const importers = [...left].filter((other) => arrows.get(other)?.has(folder)).length;
      return imported === 0 ? Infinity : importers - imported;
    };
    const [first = ''] = [...left].toSorted((one, other) => score(other) - score(one));
    left.delete(first);
    order.push(first);
  }
  return order;
}

if (import.meta.main || process.argv[1]?.endsWith('structure.mjs'))
  await runCommand(async () => {
    const usage = 'npm run structure [-- COMMIT]    lines, files, and arrows between the folders of control';
    const commits = readArguments(usage, { allowPositionals: true }).positionals;
    /** @param {string} line */
    const withoutCommit = (line) => (commits.length > 0 ? line.slice(line.indexOf(':') + 1) : line);
    for (const part of parts) {
      const counts = (await grep(['-c', '', ...commits, '--', part])).map((line) => Number(line.split(':').at(-1)));
      const lines = counts.reduce((sum, count) => sum + count, 0);
      console.log(`${part.padEnd(12)} ${String(lines).padStart(7)} lines in ${counts.length} files`);
    }
    const imports = await grep(['-E', String.raw`from '\.[^']+'`, ...commits, '--', 'src/control']);
    const arrows = arrowsOf(imports.map(withoutCommit));
    const order = orderOf(arrows);
    const all = [...arrows].flatMap(([folder, targets]) => [...targets].map((target) => ({ folder, target })));
    const against = all.filter(({ folder, target }) => order.indexOf(target) > order.indexOf(folder));
    console.log(`\ncontrol: ${order.length} folders, ${all.length} arrows, ${against.length} against the order\n`);
    console.log('```mermaid\nflowchart BT');
    for (const { folder, target } of all)
      console.log(
        `  ${folder} ${against.some((one) => one.folder === folder && one.target === target) ? '-.->' : '-->'} ${target}`,
      );
    console.log('```');
  });
