/** The build of the web console: once for each content of its sources, and never without vite. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ensureConsole, hashOfSources } from '../../../scripts/lib/console.mjs';

let base: string;
let builds: string[][];
let code: number;

const write = (name: string, text: string): void => {
  mkdirSync(path.dirname(path.join(base, name)), { recursive: true });
  writeFileSync(path.join(base, name), text);
};
const read = (name: string): Buffer => readFileSync(path.join(base, 'dist/console', name));
const ensure = (): Promise<void> =>
  ensureConsole('node', {
    base,
    async build({ command, args, env }) {
      builds.push([command, ...args, env?.['NODE_ENV'] ?? 'no NODE_ENV']);
      write('dist/console/index.html', '<html>');
      write('dist/console/console-assets/index-a.js', 'console.log(1)');
      return { code, signal: null };
    },
  });

beforeEach(() => {
  base = mkdtempSync(path.join(os.tmpdir(), 'berth-console-build-'));
  [builds, code] = [[], 0];
  write('node_modules/vite/bin/vite.js', '');
  write('console/src/main.tsx', 'first');
  write('src/contract/routes.ts', 'routes');
  write('src/control/index.ts', 'not of the console');
  write('package-lock.json', '{}');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

test('builds once, with a compressed copy of each file of text', async () => {
  await ensure();
  await ensure();
  const command = ['node', path.join(base, 'node_modules/vite/bin/vite.js'), 'build', 'production'];
  expect(builds).toEqual([expect.arrayContaining(command)]);
  expect(brotliDecompressSync(read('console-assets/index-a.js.br')).toString()).toBe('console.log(1)');
  expect(gunzipSync(read('console-assets/index-a.js.gz')).toString()).toBe('console.log(1)');
  expect(existsSync(path.join(base, 'dist/console/index.html.br'))).toBe(false);
});

test.each([
  ['a changed file', () => write('console/src/main.tsx', 'second')],
  ['a new file', () => write('console/src/pages/new.ts', '')],
  ['a changed contract', () => write('src/contract/routes.ts', 'more routes')],
  ['other packages', () => write('package-lock.json', '{"a":1}')],
  ['a folder that somebody deleted', () => rmSync(path.join(base, 'dist/console'), { recursive: true })],
])('builds again after %s', async (_name, change) => {
  await ensure();
  change();
  await ensure();
  expect(builds).toHaveLength(2);
});

test('does not build for a change of the server', async () => {
  await ensure();
  const before = hashOfSources(base);
  write('src/control/index.ts', 'changed');
  await ensure();
  expect([builds.length, hashOfSources(base)]).toEqual([1, before]);
});

test('a rename changes the hash, although the contents are the same', () => {
  const before = hashOfSources(base);
  write('console/src/other.tsx', 'first');
  rmSync(path.join(base, 'console/src/main.tsx'));
  expect(hashOfSources(base)).not.toBe(before);
});

test('without vite keeps the console that is there, and needs no sources', async () => {
  rmSync(path.join(base, 'node_modules'), { recursive: true });
  write('dist/console/index.html', 'delivered');
  await ensure();
  expect([builds.length, read('index.html').toString()]).toEqual([0, 'delivered']);
});

test('a build that fails is named, and tried again although the sources are those of an earlier build', async () => {
  await ensure();
  write('console/src/main.tsx', 'wrong');
  code = 1;
  await expect(ensure()).rejects.toThrow(/could not be built: vite ended with 1/);
  write('console/src/main.tsx', 'first');
  code = 0;
  await ensure();
  expect(builds).toHaveLength(3);
});
