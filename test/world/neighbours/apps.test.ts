/**
 * Apps behind the gateway in a real browser, by path and by host: for their owner, another account,
 * a stranger and a holder of a link. The table in `docs/use.md` says what these tests see.
 */
import { spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { launchBrowser } from '../../fixtures/browser.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { ALICE, idOf, MALLORY, start, type Harness } from '../../http/gateway/harness.ts';
import { appPrograms, type AppProgram } from './app-programs.ts';
import { findPython, openPython, type Python } from './python.ts';

const A = idOf('a');
const PORT = 80;
const PREFIX = `/forward/${A}/${PORT}`;
const TOKEN = 'the-token-of-a-link';
/** Of the packages, which are 2 GB. */
const INSTALL_MS = 30 * 60_000;
const MINUTES_MS = 15 * 60_000;

const visitors = ['owner', 'another account', 'stranger', 'holder of a link'] as const;
type Visitor = (typeof visitors)[number];

let browser: Browser;
let python: Python | undefined;
beforeAll(async () => {
  browser = await launchBrowser('--host-resolver-rules=MAP *.localtest 127.0.0.1');
  const found = await findPython('3.12');
  const packages = Object.values(appPrograms).flatMap(({ requirement }) => requirement ?? []);
  if (found !== null) python = await openPython(found, packages);
}, INSTALL_MS);
afterAll(async () => {
  await browser?.close();
  await python?.remove();
}, MINUTES_MS);

interface RunningApp {
  harness: Harness;
  folder: string;
}

async function run(name: string, program: AppProgram, environment: Record<string, string>): Promise<RunningApp> {
  const root = python?.folder ?? '';
  const folder = path.join(root, name);
  await mkdir(folder, { recursive: true });
  for (const [file, text] of Object.entries(program.files)) await writeFile(path.join(folder, file), text);
  const port = await freePort();
  const [command = '', ...args] = program.command(port);
  const bin = path.join(root, 'venv/bin');
  const env = { ...process.env, ...environment, PATH: `${bin}:${process.env['PATH']}` };
  const file = path.isAbsolute(command) ? command : path.join(bin, command);
  // A group of its own: servers start others.
  const child = spawn(file, args, { cwd: folder, env, detached: true, stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('exit', resolve).once('error', resolve));
  onTestFinished(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
    await ended;
  });
  const harness = await start({ portDomain: (bound) => `gpu.localtest:${bound}` });
  harness.add(A, { owner: ALICE, ports: { [PORT]: port } });
  const answers = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    );
  await expect.poll(answers).toBe(true);
  return { harness, folder };
}

/** Opens the app as the visitor does: with a link of the API, a link to the port, or neither. */
async function opened({ harness }: RunningApp, form: 'path' | 'host', visitor: Visitor): Promise<Page> {
  const access = visitor === 'stranger' ? 'public' : visitor === 'another account' ? 'signedIn' : 'owner';
  const instance = harness.instances.get(A);
  if (instance !== undefined) instance.route.access = new Map([[PORT, access]]);
  const context: BrowserContext = await browser.newContext();
  onTestFinished(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const origin = form === 'path' ? harness.origin : `http://${PORT}-${A}.gpu.localtest:${harness.port}`;
  const first = form === 'path' ? `${PREFIX}/` : '/';
  if (visitor === 'owner' || visitor === 'another account') {
    const key = `key-of-${visitor}`;
    harness.handovers.set(key, { accountId: visitor === 'owner' ? ALICE : MALLORY, instanceId: A });
    const link = form === 'path' ? `/open?key=${key}&to=${encodeURIComponent(first)}` : `/.berth/open?key=${key}`;
    await page.goto(`${origin}${link}`);
  } else if (visitor === 'holder of a link') {
    harness.shares.set(TOKEN, { instanceId: A, port: PORT, expiresAtMs: Date.now() + MINUTES_MS });
    await page.goto(`${origin}${first}?berth_share=${TOKEN}`);
  } else await page.goto(`${origin}${first}`);
  return page;
}

const notice = (page: Page) => page.getByText('Shown in a sandbox.');

test.for(Object.entries(appPrograms))(
  '%s works for its owner by path and for everybody by host; by path, others read what to do',
  { timeout: MINUTES_MS },
  async ([name, program], { skip }) => {
    if (python === undefined) return skip('Python 3.12 is not here');
    const app = await run(name, program, {});
    const own = await opened(app, 'path', 'owner');
    await program.use(own, app.folder);
    expect(await notice(own).count()).toBe(0);
    for (const visitor of visitors) {
      const page = await opened(app, 'host', visitor);
      await program.use(page, app.folder);
      expect(await notice(page).count()).toBe(0);
      if (visitor !== 'owner') await notice(await opened(app, 'path', visitor)).waitFor();
    }
  },
);

const configured = Object.entries(appPrograms).flatMap(([name, program]) =>
  program.environment === undefined ? [] : [{ name, program, environment: program.environment(PREFIX) }],
);

test.for(configured)(
  '$name that knows its prefix asks for nothing at the root',
  { timeout: MINUTES_MS },
  async ({ name, program, environment }, { skip }) => {
    if (python === undefined) return skip('Python 3.12 is not here');
    const app = await run(name, program, environment);
    const page = await opened(app, 'path', 'owner');
    const outside: string[] = [];
    page.on('request', (request) => {
      const { origin, pathname } = new URL(request.url());
      if (origin === app.harness.origin && !pathname.startsWith(`${PREFIX}/`)) outside.push(pathname);
    });
    await page.reload();
    await program.use(page, app.folder);
    expect(outside).toEqual([]);
  },
);
