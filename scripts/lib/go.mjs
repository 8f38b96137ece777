/**
 * Builds programs of the tests from public Go modules, once, into the user's cache.
 */
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { filesBelow } from './files.mjs';
import { capture, findProgram, say, secondsSince, Unready } from './run.mjs';

/**
 * @param {string} name folder in the cache of this project
 * @param {NodeJS.ProcessEnv} env
 */
export function cacheFolder(name, env = process.env) {
  return path.join(env['XDG_CACHE_HOME'] || path.join(os.homedir(), '.cache'), 'berth', name);
}

/** Every Go of this machine, whatever its version. */
export function findGos() {
  const folders = [
    '/usr/local/go',
    ...readdirSync('/usr/lib')
      .filter((name) => name.startsWith('go-'))
      .map((name) => `/usr/lib/${name}`),
  ];
  const found = [findProgram('go'), ...folders.map((folder) => findProgram('go', [`${folder}/bin`]))];
  return [...new Set(found.filter((go) => go !== undefined))];
}

/**
 * Finds a Go that is new enough. Any other can fetch it as a module, `golang.org/toolchain`, by the
 * proxy that it is set up to use.
 * @param {string} leastGo
 * @param {string[]} [gos] each Go of this machine
 * @returns {Promise<string | { why: string }>}
 */
export async function ensureGo(leastGo, gos = findGos()) {
  for (const go of gos) {
    const { output } = await capture({ command: go, args: ['version'], env: goEnv() });
    if (isAtLeast(/go(\d+\.\d+(?:\.\d+)?)/.exec(output)?.[1] ?? '0', leastGo)) return go;
  }
  const [go] = gos;
  if (go === undefined)
    return { why: `Go is not installed: install Go ${leastGo} or newer, or any Go that reaches a module proxy` };
  const arch = process.arch === 'x64' ? 'amd64' : process.arch;
  const module = `golang.org/toolchain@v0.0.1-go${leastGo}.linux-${arch}`;
  say(`Fetching Go ${leastGo} as the module ${module}.`);
  const ended = await capture({ command: go, args: ['mod', 'download', '-json', module], cwd: '/', env: goEnv() });
  const folder = /"Dir": "(.*)"/.exec(ended.output)?.[1];
  if (ended.code !== 0 || folder === undefined)
    return { why: `Go ${leastGo} or newer is not installed, and ${go} could not fetch it: ${ended.output.trim()}` };
  // Go before 1.21 unpacks a module without the right to execute.
  for (const file of ['bin', 'pkg/tool'].flatMap((name) => filesBelow(path.join(folder, name)))) chmodSync(file, 0o755);
  return path.join(folder, 'bin/go');
}

/** @param {boolean} [cgo] */
function goEnv(cgo = false) {
  const { GOROOT: _, ...env } = process.env;
  return { ...env, GO111MODULE: 'on', GOWORK: 'off', GOFLAGS: '', GOTOOLCHAIN: 'local', CGO_ENABLED: cgo ? '1' : '0' };
}

/**
 * @param {string} one
 * @param {string} least
 */
function isAtLeast(one, least) {
  return one.localeCompare(least, 'en', { numeric: true }) >= 0;
}

/**
 * Returns what Go said.
 * @param {{ go: string, cwd: string, cgo?: boolean }} where
 * @param {string[]} args
 */
export async function runGo({ go, cwd, cgo }, ...args) {
  const { code, output } = await capture({ command: go, args, cwd, env: goEnv(cgo) });
  if (code !== 0) throw new Unready(`go ${args[0]} failed: ${output.trim().split('\n').slice(-20).join('\n')}`);
  return output.trim();
}

/**
 * Fills a folder, which is at `target` only once it is complete.
 * @param {string} target
 * @param {(unfinished: string) => Promise<void>} fill
 */
export async function buildInto(target, fill) {
  const unfinished = `${target}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  const startedAt = performance.now();
  try {
    await fill(unfinished);
    // Another build of the same sources may have been faster.
    if (!existsSync(target)) renameSync(unfinished, target);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  say(`  built in ${secondsSince(startedAt)}`);
}

const buildOptions = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags', '-s -w'];

/**
 * @typedef {object} GoModule
 * @property {string} title
 * @property {string} leastGo
 * @property {string} name
 * @property {string} sum
 * @property {string} [main] package of the program; default: `cmd/…` by the title
 * @property {unknown[]} [recipe] what else the program depends on
 */

/**
 * The program of a module, which is built first if need be. `prepare` returns the folder to build
 * in, by default the module's own, which can't be written, and may add files to the unfinished one.
 * @param {GoModule} module
 * @param {(folders: { go: string, source: string, unfinished: string }) => Promise<string>} prepare
 * @returns {Promise<string | { why: string }>}
 */
export async function ensureGoProgram(
  { title, leastGo, name, sum, main = `./cmd/${title.toLowerCase()}`, recipe = [] },
  prepare = async ({ source }) => source,
) {
  const command = title.toLowerCase();
  const hash = createHash('sha256').update(JSON.stringify([leastGo, name, sum, ...recipe]));
  const target = path.join(cacheFolder(command), hash.digest('hex').slice(0, 16));
  const program = path.join(target, command);
  if (existsSync(program)) return program;
  const go = await ensureGo(leastGo);
  if (typeof go !== 'string') return go;
  try {
    const { Dir: source, Sum } = JSON.parse(await runGo({ go, cwd: '/' }, 'mod', 'download', '-json', name));
    if (Sum !== sum) throw new Unready(`${name} has the sum ${Sum}, and must have ${sum}`);
    say(`Building ${title} for the tests: some minutes on two cores, once. It stays in ${target}.`);
    await buildInto(target, async (unfinished) => {
      const cwd = await prepare({ go, source, unfinished });
      await runGo({ go, cwd }, 'build', ...buildOptions, '-o', path.join(unfinished, command), main);
      if (cwd !== source) rmSync(cwd, { recursive: true });
    });
    return program;
  } catch (error) {
    if (error instanceof Unready) return { why: `${name} could not be built: ${error.message}` };
    throw error;
  }
}
