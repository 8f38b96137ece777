/**
 * A newcomer in a fresh clone: what README and the programs print is copied, and nothing else, up
 * to the output of the first cell. The table of times is printed; load makes them longer.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { removeDataFolder } from '../../scripts/lib/remove-data-folder.mjs';
import { launchBrowser, networkSettled } from '../fixtures/browser.ts';
import { IMAGE_DEADLINE_MS } from '../fixtures/first-launch.ts';
import { freePort } from '../fixtures/free-port.ts';
import { installationOf, removeAll } from '../fixtures/server-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const MAX_PASTES = 3;
const PAGE_DEADLINE_MS = 120_000;
const INSTALLED = /Installing the npm packages[^]*?\n {2}installed in ([\d.]+) s/;

const cleanups: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const clean of cleanups.toReversed()) await clean();
});

interface Running {
  output: () => string;
  ended: Promise<number | null>;
  child: ChildProcess;
  shows: (pattern: RegExp) => Promise<RegExpExecArray>;
}

function paste(command: string, cwd: string, env: NodeJS.ProcessEnv): Running {
  const child = spawn('sh', ['-c', `exec ${command}`], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => (text += bytes.toString()));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const shows = async (pattern: RegExp): Promise<RegExpExecArray> => {
    for (;;) {
      const found = pattern.exec(text);
      if (found) return found;
      if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}:\n${text}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  return { output: () => text, ended, child, shows };
}

/** The first command of a section of the README. */
function commandOf(readme: string, section: string): string {
  const [, command = ''] = new RegExp(`## ${section}\\n[^]*?\`\`\`sh\\n(npm run \\w+)`).exec(readme) ?? [];
  if (command === '') throw new Error(`the section ${section} of the README has no command`);
  return command;
}

test(
  'a newcomer gets from a clone to the output of a cell with at most three pastes',
  async () => {
    const home = await mkdtemp(join(tmpdir(), 'berth-newcomer-'));
    const [clone, data] = [join(home, 'berth'), join(home, 'data')];
    cleanups.push(() => rm(home, { recursive: true, force: true }));
    execFileSync('git', ['clone', '--quiet', ROOT, clone]);
    // Addresses and folder of a machine that has no other Berth.
    const listen = [await freePort(), await freePort()].map((port) => `127.0.0.1:${port}`);
    const env = {
      ...process.env,
      HOME: home,
      npm_config_cache: process.env['npm_config_cache'] ?? join(process.env['HOME'] ?? '/root', '.npm'),
      BERTH_DATA: data,
      BERTH_LISTEN: listen[0],
      BERTH_GATEWAY_LISTEN: listen[1],
      BERTH_NODE_PORTS: '32410-32419',
      BERTH_KERNEL_LIMITS: 'check',
    };
    const startedMs = performance.now();
    const seconds = (): number => (performance.now() - startedMs) / 1_000;
    const times: Record<string, number> = {};
    const pastes: string[] = [];

    const readme = await readFile(join(clone, 'README.md'), 'utf8');
    pastes.push(commandOf(readme, 'Start'));
    const up = paste(pastes[0] ?? '', clone, env);
    cleanups.push(async () => {
      const installation = installationOf(data);
      up.child.kill('SIGTERM');
      await up.ended;
      await removeAll(installation);
      removeDataFolder(data);
    });
    const [, printed = ''] = await up.shows(/A first launch, in another terminal:\n\n {2}(npm run .+)\n/);
    times['Berth is ready'] = seconds();
    expect(printed).toMatch(new RegExp(`^${commandOf(readme, 'First launch')}`));

    pastes.push(printed);
    const first = paste(printed, clone, env);
    const [, link = ''] = await first.shows(/\n {2}Notebook {2}(http:\S+)\n/);
    times['the link is printed'] = seconds();
    expect(await first.ended).toBe(0);

    pastes.push(link);
    const settlesMs = performance.now();
    await networkSettled();
    const settledS = (performance.now() - settlesMs) / 1_000;
    const browser = await launchBrowser();
    cleanups.push(() => browser.close());
    const page = await browser.newPage();
    page.setDefaultTimeout(PAGE_DEADLINE_MS);
    await page.goto(link);
    await page.locator('.jp-LauncherCard[title*="Python 3"]').first().click();
    await page.getByText('Python 3 (ipykernel) | Idle').waitFor();
    await page.locator('.jp-Notebook .jp-Cell .cm-content').first().click();
    await page.keyboard.type('print("sum", 20 + 22)');
    await page.keyboard.press('Shift+Enter');
    await page.locator('.jp-OutputArea-output', { hasText: 'sum 42' }).waitFor();
    times['the first cell has run'] = seconds() - settledS;

    expect(pastes.length).toBeLessThanOrEqual(MAX_PASTES);
    times['of that, npm packages'] = Number(INSTALLED.exec(up.output())?.[1] ?? 0);
    const rows = Object.entries(times).map(([what, at]) => `${what}: ${at.toFixed(1)} s`);
    process.stdout.write(`\n${pastes.length} pastes; ${rows.join('; ')}\n`);
  },
  IMAGE_DEADLINE_MS,
);
