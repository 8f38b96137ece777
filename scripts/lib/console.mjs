/** Builds the web console into `dist/console`, once for each content of its sources. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { filesBelow } from './files.mjs';
import { root, runInFront, say, Unready } from './run.mjs';

const sources = ['console', 'src/contract', 'src/domain'];
const sourceFiles = ['package-lock.json', 'scripts/lib/console.mjs'];
const VITE = 'node_modules/vite/bin/vite.js';
const compressed = /\.(js|css|svg)$/;

/** Digest of the names and contents of all sources of the console. @param {string} base */
export function hashOfSources(base) {
  const hash = createHash('sha256');
  const folders = sources.flatMap((name) => filesBelow(path.join(base, name)));
  for (const file of [
    ...folders,
    ...sourceFiles.map((name) => path.join(base, name)).filter((file) => existsSync(file)),
  ])
    hash.update(path.relative(base, file)).update('\0').update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}

/** Copies beside each file: the server does not compress at each request. @param {string} folder */
function compress(folder) {
  for (const file of filesBelow(folder).filter((name) => compressed.test(name))) {
    const bytes = readFileSync(file);
    writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
    writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  }
}

/**
 * An installation without build tools serves the console that it was delivered with.
 * @param {string} node
 * @param {{ base?: string, build?: typeof runInFront }} [options] for tests
 */
export async function ensureConsole(node, { base = root, build = runInFront } = {}) {
  const vite = path.join(base, VITE);
  if (!existsSync(vite)) return;
  const folder = path.join(base, 'dist/console');
  const hashFile = path.join(base, 'dist/console.hash');
  const hash = hashOfSources(base);
  const isCurrent = existsSync(path.join(folder, 'index.html')) && existsSync(hashFile);
  if (isCurrent && readFileSync(hashFile, 'utf8') === hash) return;
  say('building the web console');
  // A build that fails leaves half a folder, whatever the sources are at the next start.
  rmSync(hashFile, { force: true });
  const { code } = await build({
    command: node,
    args: [vite, 'build', '--logLevel', 'warn', '--config', path.join(base, 'console/vite.config.ts')],
    // A test runner's `test` would make it the slow build for developers.
    env: { ...process.env, NODE_ENV: 'production' },
  });
  if (code !== 0)
    throw new Unready(`the web console could not be built: vite ended with ${code}; its messages are above`);
  compress(folder);
  mkdirSync(path.dirname(hashFile), { recursive: true });
  writeFileSync(hashFile, hash);
}
