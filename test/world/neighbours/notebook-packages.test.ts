/** Packages that change the notebook's page, installed in an instance, in a real browser. */
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, networkSettled } from '../../fixtures/browser.ts';
import { IMAGE_DEADLINE_MS, launchFirst, running } from '../../fixtures/first-launch.ts';
import {
  emptyNotebook,
  isIdle,
  openNewNotebook,
  openPatientPage,
  outputOf,
  PAGE_MS,
  printing,
  run,
} from '../../fixtures/notebook-page.ts';
import { login, startServerProcess, until, type Client, type ServerProcess } from '../../fixtures/server-process.ts';
import { packageIndexSettings } from './package-index.ts';

const TEST_MS = 30 * 60_000;
const LINES = 5;
const PRINTED = `begun\n${Array.from({ length: LINES }, (_, n) => `${n} ${'x'.repeat(990)}\n`).join('')}`;

let server: ServerProcess;
let client: Client;
let token: string;
let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
  server = await startServerProcess({ nodePorts: '30800-30819', settings: packageIndexSettings() });
  ({ client, token } = await login(server));
}, IMAGE_DEADLINE_MS);
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

const inside = async (instanceId: string, command: string): Promise<string> =>
  (await client.exec({ instanceId, command: ['sh', '-c', command] })).stdout.trim();

async function restart(instanceId: string): Promise<void> {
  await client.stop({ instanceId });
  await until(
    () => client.getInstance({ instanceId }),
    ({ instance }) => instance.instanceRuntimeInfo.status === 'Stopped',
  );
  await client.start({ instanceId });
  await running(client, instanceId);
}

/** Installs packages as in a terminal, and starts the instance again. */
async function install(instanceId: string, packages: string): Promise<void> {
  const command = ['sh', '-c', `pip install -q ${packages} 2>&1`];
  const { exitCode, stdout } = await client.exec({ instanceId, command, timeoutSeconds: 600 });
  expect(exitCode, stdout).toBe(0);
  await restart(instanceId);
}

/** Sources and texts of the cells of a notebook on the disk. */
const CELLS = `
import json, sys
cells = json.load(open("/root/Untitled.ipynb"))["cells"]
texts = lambda cell: [text for output in cell.get("outputs", []) for text in output.get("text", [])]
print(json.dumps([["".join(cell["source"]), "".join(texts(cell))] for cell in cells]))`;
const cellsOnDisk = async (instanceId: string): Promise<[string, string][]> =>
  JSON.parse(await inside(instanceId, `python3 -c '${CELLS}'`));

const shown = async (page: Page): Promise<string> => (await outputOf(page, 0).allTextContents()).join('');

const at = (instanceId: string, path: string): string => `${server.gatewayUrl}/notebook/${instanceId}/${path}`;

/** Lets the cell print with no page there, and waits for its end. */
async function printAbsent(instanceId: string): Promise<void> {
  await inside(instanceId, 'touch /tmp/go');
  await until(
    () => inside(instanceId, 'ls /tmp'),
    (names) => names.includes('ended'),
  );
  await inside(instanceId, 'rm /tmp/go /tmp/ended');
}

/** Opens a page of the notebook server in a browser that has no page of it. */
async function openAgain(instanceId: string, path: string): Promise<Page> {
  await networkSettled();
  const page = await openPatientPage(browser);
  await page.goto((await client.open({ instanceId })).url);
  await page.goto(at(instanceId, path));
  return page;
}

test(
  'jupyter-collaboration: what a cell printed with the tab closed, and what was typed, is there once',
  async () => {
    const { instanceId } = await launchFirst(client, { name: 'together' });
    await install(instanceId, 'jupyter-collaboration');
    const page = await openPatientPage(browser);
    await openNewNotebook(page, (await client.open({ instanceId })).url);
    await run(page, 0, printing(LINES));
    await outputOf(page, 0).getByText('begun').waitFor({ timeout: PAGE_MS });
    await page.keyboard.insertText('typed = "before the tab was closed"');
    const onDisk = (): Promise<string> => cellsOnDisk(instanceId).then(JSON.stringify, String);
    await expect.poll(onDisk, { timeout: PAGE_MS }).toContain('typed');
    await page.close();
    await printAbsent(instanceId);

    const pages: Page[] = [];
    for (const name of ['first', 'second']) {
      const again = await openAgain(instanceId, 'lab/tree/Untitled.ipynb');
      pages.push(again);
      await expect.poll(() => shown(again), { message: `on the ${name} page`, timeout: PAGE_MS }).toBe(PRINTED);
      await isIdle(again);
    }
    await run(pages[1] ?? expect.fail(), 1, '; print(typed)');
    for (const each of pages) {
      await outputOf(each, 1).getByText('before the tab was closed').waitFor({ timeout: PAGE_MS });
      expect(await shown(each)).toBe(PRINTED);
      expect(await outputOf(each, 1).count()).toBe(1);
    }
    const [printed, typed] = [
      [printing(LINES), PRINTED],
      ['typed = "before the tab was closed"; print(typed)', 'before the tab was closed\n'],
    ];
    await expect.poll(() => cellsOnDisk(instanceId), { timeout: PAGE_MS }).toEqual([printed, typed, ['', '']]);
    for (const each of pages) await each.close();
    await client.terminate({ instanceId });
  },
  TEST_MS,
);

test(
  'Notebook 7 opens a notebook, shows what came with the tab closed, and has the bar; so does it after an upgrade',
  async () => {
    const { instanceId } = await launchFirst(client, { name: 'seven' });
    for (const packages of ['notebook', '-U jupyterlab']) {
      await install(instanceId, packages);
      await inside(instanceId, `echo '${JSON.stringify(emptyNotebook)}' >/root/Untitled.ipynb`);
      const tree = await openAgain(instanceId, 'tree');
      await tree
        .locator('#berth-bar')
        .getByText(/^seven/)
        .waitFor({ timeout: PAGE_MS });
      const [page] = await Promise.all([
        tree.waitForEvent('popup', { timeout: PAGE_MS }),
        tree.getByText('Untitled.ipynb').first().dblclick({ timeout: PAGE_MS }),
      ]);
      await page
        .locator('#berth-bar')
        .getByText(/^seven/)
        .waitFor({ timeout: PAGE_MS });
      expect(page.url()).toContain(`/notebook/${instanceId}/notebooks/Untitled.ipynb`);
      // Notebook 7 drops a run before its kernel is there.
      const kernels = async (): Promise<{ execution_state: string; connections: number }[]> => {
        const headers = { authorization: `Bearer ${token}` };
        return JSON.parse(await (await fetch(at(instanceId, 'api/kernels'), { headers })).text());
      };
      await until(kernels, ([kernel]) => kernel?.execution_state === 'idle' && kernel.connections > 0, PAGE_MS);
      await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor({ timeout: PAGE_MS });
      await run(page, 0, printing(LINES));
      await outputOf(page, 0).getByText('begun').waitFor({ timeout: PAGE_MS });
      const onDisk = (): Promise<string> => cellsOnDisk(instanceId).then(JSON.stringify);
      await expect.poll(onDisk, { timeout: PAGE_MS }).toContain('begun');
      await tree.close();
      await page.close();
      await printAbsent(instanceId);
      const again = await openAgain(instanceId, 'notebooks/Untitled.ipynb');
      await expect.poll(() => shown(again), { timeout: PAGE_MS }).toBe(PRINTED);
      await expect.poll(() => cellsOnDisk(instanceId), { timeout: PAGE_MS }).toContainEqual([printing(LINES), PRINTED]);
      await again.close();
    }
    const lab = await openAgain(instanceId, 'lab/tree/Untitled.ipynb');
    await lab
      .locator('#berth-bar')
      .getByText(/^seven/)
      .waitFor({ timeout: PAGE_MS });
    await expect.poll(() => shown(lab), { timeout: PAGE_MS }).toBe(PRINTED);
    await client.terminate({ instanceId });
  },
  TEST_MS,
);
