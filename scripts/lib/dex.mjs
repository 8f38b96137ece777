/** Dex for `npm run test:world`, built once from public Go modules, without its API over gRPC. */
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { filesBelow } from './files.mjs';
import { buildInto, cacheFolder, ensureGo, runGo } from './go.mjs';
import { say, Unready } from './run.mjs';

const leastGo = '1.25.8';
const name = 'github.com/dexidp/dex@v0.0.0-20260806151424-ab64ed778070';
const sum = 'h1:Zhb4XyHQ8935RToX2ZgxyfQcg8EE9gSnbk2Zi5PYf4E=';
/** Module of the API; no version that matches is published. */
const api = 'github.com/dexidp/dex/api/v2';
const linesOfApi = [`"${api}"`, '"github.com/dexidp/dex/server/apiserver"', 'api.RegisterDexServer('];

/**
 * The program, which is built first if need be.
 * @returns {Promise<string | { why: string }>}
 */
export async function ensureDex() {
  const hash = createHash('sha256').update(JSON.stringify([leastGo, name, sum, linesOfApi]));
  const folder = path.join(cacheFolder('dex'), hash.digest('hex').slice(0, 16));
  const program = path.join(folder, 'dex');
  if (existsSync(program)) return program;
  const go = await ensureGo(leastGo);
  if (typeof go !== 'string') return go;
  try {
    const { Dir, Sum } = JSON.parse(await runGo({ go, cwd: '/' }, 'mod', 'download', '-json', name));
    if (Sum !== sum) throw new Unready(`${name} has the sum ${Sum}, and must have ${sum}`);
    say(`Building Dex for the tests: some minutes on two cores, once. It stays in ${folder}.`);
    await buildInto(folder, async (unfinished) => {
      const cwd = path.join(unfinished, 'source');
      copyWritable(Dir, cwd);
      await runGo({ go, cwd }, 'mod', 'edit', `-dropreplace=${api}`, `-droprequire=${api}`);
      const main = path.join(cwd, 'cmd/dex/serve.go');
      const lines = readFileSync(main, 'utf8').split('\n');
      const kept = lines.filter((line) => !linesOfApi.some((part) => line.includes(part)));
      if (kept.length !== lines.length - linesOfApi.length) throw new Unready(`${main} has other lines of the API`);
      writeFileSync(main, kept.join('\n'));
      const options = ['-mod=readonly', '-buildvcs=false', '-trimpath', '-ldflags', '-s -w'];
      await runGo({ go, cwd }, 'build', ...options, '-o', path.join(unfinished, 'dex'), './cmd/dex');
      rmSync(cwd, { recursive: true });
    });
    return program;
  } catch (error) {
    if (error instanceof Unready) return { why: `${name} could not be built: ${error.message}` };
    throw error;
  }
}

/**
 * Files of a module can't be written.
 * @param {string} from
 * @param {string} to
 */
function copyWritable(from, to) {
  for (const file of filesBelow(from)) {
    const copy = path.join(to, path.relative(from, file));
    mkdirSync(path.dirname(copy), { recursive: true });
    copyFileSync(file, copy);
    chmodSync(copy, 0o644);
  }
}
