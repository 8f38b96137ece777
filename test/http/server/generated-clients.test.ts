/**
 * Clients that public generators make from docs/openapi.json, against a real server on the
 * simulated engine: log in, launch, list, open, stop, terminate.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isLong } from '../../fixtures/level.ts';
import { pythonProgram, typescriptProgram } from '../../fixtures/generated-client-programs.ts';
import { login, startServerProcess, type ServerProcess } from '../../fixtures/server-process.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../..', import.meta.url));
const document = path.join(root, 'docs/openapi.json');
const PYTHON_GENERATOR = 'openapi-python-client==0.29.1';
const expected = { statuses: ['Running', 'Stopped'], terminated: 404, url: true };

let server: ServerProcess;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'berth-generated-'));
  server = await startServerProcess({ nodePorts: '31920-31969', settings: { BERTH_ENGINE: 'simulated' } });
});
afterAll(async () => {
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

async function account(username: string): Promise<{ username: string; password: string }> {
  const password = `the password of ${username}`;
  const { client } = await login(server);
  await client.createUser({ username, password, balance: 1_000 });
  return { username, password };
}

test('openapi-typescript generates a client that type-checks and works', async () => {
  const at = path.join(folder, 'typescript');
  await mkdir(at);
  // The generator needs the JavaScript API of TypeScript 5, which TypeScript 7 does not have. A
  // package that bundles version 5 leaves the program tsc to version 7.
  const hooks = path.join(at, 'typescript-5.mjs');
  const typescript5 = pathToFileURL(path.join(root, 'node_modules/@ts-morph/common/dist/typescript.js')).href;
  await writeFile(
    hooks,
    `import { registerHooks } from 'node:module';
    registerHooks({ resolve: (name, context, next) =>
      next(name === 'typescript' ? ${JSON.stringify(typescript5)} : name, context) });`,
  );
  const generator = path.join(root, 'node_modules/openapi-typescript/bin/cli.js');
  await run(process.execPath, ['--import', hooks, generator, document, '--output', path.join(at, 'schema.d.ts')]);
  await writeFile(path.join(at, 'drive.ts'), typescriptProgram);
  await writeFile(path.join(at, 'package.json'), JSON.stringify({ type: 'module' }));
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: 'esnext',
    module: 'nodenext',
    lib: ['esnext', 'dom'],
    types: [],
  };
  await writeFile(path.join(at, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
  const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
  const checked = await run(process.execPath, [tsc, '-p', at]).catch((error: { stdout: string }) => error);
  expect(checked.stdout).toBe('');
  const { username, password } = await account('typist');
  const args = [path.join(at, 'drive.ts'), `${server.apiUrl}/api`, username, password];
  const { stdout } = await run(process.execPath, args);
  expect(JSON.parse(stdout)).toEqual(expected);
});

test('openapi-python-client generates every operation, and the client works', async ({ skip }) => {
  skip(!isLong, 'installs a generator from PyPI: npm run test:long runs it');
  const at = path.join(folder, 'python');
  await mkdir(at);
  const bin = path.join(at, 'venv/bin');
  await run('python3', ['-m', 'venv', path.join(at, 'venv')]);
  await run(path.join(bin, 'pip'), ['install', '--quiet', PYTHON_GENERATOR]);
  await cp(document, path.join(at, 'openapi.json'));
  const { stdout: said, stderr } = await run(
    path.join(bin, 'openapi-python-client'),
    ['generate', '--path', 'openapi.json', '--meta', 'none', '--output-path', 'berth_client'],
    { cwd: at, env: { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}` } },
  );
  expect(said + stderr).not.toMatch(/will not be generated/);
  await writeFile(path.join(at, 'drive.py'), pythonProgram);
  const { username, password } = await account('snake');
  const { stdout } = await run(path.join(bin, 'python'), ['drive.py', `${server.apiUrl}/api`, username, password], {
    cwd: at,
  });
  expect(JSON.parse(stdout)).toEqual(expected);
}, 300_000);
