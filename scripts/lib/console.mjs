/** Builds the web console into `dist/console`, once for each content of its sources. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { root, runInFront, say, Unready } from './run.mjs';

const folder = path.join(root, 'dist/console');
const hashFile = path.join(root, 'dist/console.hash');
const sources = ['console', 'src/contract', 'src/domain', 'package-lock.json', 'scripts/lib/console.mjs'];
const vite = path.join(root, 'node_modules/vite/bin/vite.js');
const compressed = /\.(js|css|svg)$/;

/** @param {string} name @returns {string[]} */
function filesBelow(name) {
  const file = path.join(root, name);
  if (!existsSync(file)) return [];
  const entries = readdirSync(file, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
}

function hashOfSources() {
  const hash = createHash('sha256');
  for (const name of sources)
    for (const file of name.includes('.') ? [path.join(root, name)] : filesBelow(name))
      hash.update(path.relative(root, file)).update('\0').update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}

/** Copies beside each file: the server does not compress at each request. */
function compress() {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile() || !compressed.test(entry.name)) continue;
    const file = path.join(entry.parentPath, entry.name);
    const bytes = readFileSync(file);
    writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
    writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  }
}

/**
 * An installation without build tools serves the console that it was delivered with.
 * @param {string} node
 */
export async function ensureConsole(node) {
  if (!existsSync(vite)) return;
  const hash = hashOfSources();
  if (existsSync(folder) && existsSync(hashFile) && readFileSync(hashFile, 'utf8') === hash) return;
  say('building the web console');
  const { code } = await runInFront({
    command: node,
    args: [vite, 'build', '--logLevel', 'warn', '--config', path.join(root, 'console/vite.config.ts')],
  });
  if (code !== 0) throw new Unready(`the web console could not be built: vite ended with ${code}`);
  compress();
  mkdirSync(path.dirname(hashFile), { recursive: true });
  writeFileSync(hashFile, hash);
}
