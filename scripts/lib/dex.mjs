/** Dex for `npm run test:world`, built once from public Go modules, without its API over gRPC. */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { filesBelow } from './files.mjs';
import { ensureGoProgram, runGo } from './go.mjs';
import { Unready } from './run.mjs';

/** Module of the API; no version that matches is published. */
const api = 'github.com/dexidp/dex/api/v2';
const linesOfApi = [`"${api}"`, '"github.com/dexidp/dex/server/apiserver"', 'api.RegisterDexServer('];
const dex = {
  title: 'Dex',
  leastGo: '1.25.8',
  name: 'github.com/dexidp/dex@v0.0.0-20260806151424-ab64ed778070',
  sum: 'h1:Zhb4XyHQ8935RToX2ZgxyfQcg8EE9gSnbk2Zi5PYf4E=',
  recipe: [linesOfApi],
};

export const ensureDex = () =>
  ensureGoProgram(dex, async ({ go, source, unfinished }) => {
    const cwd = path.join(unfinished, 'source');
    copyWritable(source, cwd);
    await runGo({ go, cwd }, 'mod', 'edit', `-dropreplace=${api}`, `-droprequire=${api}`);
    const main = path.join(cwd, 'cmd/dex/serve.go');
    const lines = readFileSync(main, 'utf8').split('\n');
    const kept = lines.filter((line) => !linesOfApi.some((part) => line.includes(part)));
    if (kept.length !== lines.length - linesOfApi.length) throw new Unready(`${main} has other lines of the API`);
    writeFileSync(main, kept.join('\n'));
    return cwd;
  });

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
