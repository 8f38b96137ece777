/**
 * Finds Node 24. Its binary for Linux is an npm package, so that a machine with any npm runs the
 * same one.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { hasGlibc } from './dependencies.mjs';
import { root, Unready } from './run.mjs';

/** argon2id of `node:crypto` needs 24.7. */
const oldest = [24, 7];

/**
 * @param {{ platform?: string, arch?: string, glibc?: boolean, version?: string, execPath?: string,
 *   folder?: string }} [given]
 * @returns {string} the path of a Node that can run Berth
 */
export function findNode24({
  platform = process.platform,
  arch = process.arch,
  glibc = hasGlibc(),
  version = process.versions.node,
  execPath = process.execPath,
  folder = root,
} = {}) {
  if (platform === 'linux' && glibc) {
    const packaged = path.join(folder, 'node_modules', `node-linux-${arch}`, 'bin', 'node');
    if (existsSync(packaged)) return packaged;
  }
  if (isRecentEnough(version)) return execPath;
  throw new Unready(
    `Berth needs Node.js ${oldest.join('.')} or later. npm installs it on Linux with glibc (x64, arm64); on this machine ` +
      `(${platform}, ${arch}) install Node.js 24 from https://nodejs.org and run the command again. This is Node.js ${version}.`,
  );
}

/** @param {string} version */
export function isRecentEnough(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = oldest;
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
}

/**
 * The environment of what we start under Node 24: `node` of the path is the same Node.
 * @param {string} node
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {NodeJS.ProcessEnv}
 */
export function envWithNode(node, env = process.env) {
  const folder = path.dirname(node);
  const folders = (env['PATH'] ?? '').split(path.delimiter).filter((one) => one !== folder && one !== '');
  return { ...env, PATH: [folder, ...folders].join(path.delimiter) };
}
