/** From the login to the output of a cell in the console, on a real container engine. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { ensureConsole } from '../../scripts/lib/console.mjs';
import { launchBrowser, networkSettled } from '../fixtures/browser.ts';
import { IMAGE_DEADLINE_MS } from '../fixtures/first-launch.ts';
import {
  login,
  PASSWORD,
  startServerProcess,
  until,
  type Client,
  type ServerProcess,
} from '../fixtures/server-process.ts';

const PAGE_DEADLINE_MS = 120_000;
const LOADED_MS = 60_000;
let server: ServerProcess;
let browser: Browser;
let client: Client;

beforeAll(async () => {
  await ensureConsole(process.execPath);
  server = await startServerProcess({ nodePorts: '32580-32599' });
  ({ client } = await login(server));
  browser = await launchBrowser();
  await until(
    () => client.listImages({ pager: { currentPage: 1, pageSize: 1 } }),
    ({ images }) => images[0]?.state === 'Ready',
    IMAGE_DEADLINE_MS,
  );
}, IMAGE_DEADLINE_MS);

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

test('a person logs in, launches with the defaults, and runs a cell in the notebook that opens by itself', async () => {
  onTestFinished(async () => {
    const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 10 } });
    for (const { instanceMetadata } of instances) await client.terminate({ instanceId: instanceMetadata.instanceId });
  });
  await networkSettled();
  const page = await browser.newPage();
  page.setDefaultTimeout(PAGE_DEADLINE_MS);
  const aborted: string[] = [];
  page.on('requestfailed', (request) => {
    if (request.failure()?.errorText === 'net::ERR_NETWORK_CHANGED') aborted.push(request.url());
  });
  await page.goto(server.apiUrl);
  await page.getByLabel('Name or email').fill('admin');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Launch' }).first().click();
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.waitForURL(/\/notebook\/notebook-/);
  const launcher = page.locator('.jp-LauncherCard[title*="Python 3"]').first();
  await launcher.waitFor({ timeout: LOADED_MS }).catch(async (error: unknown) => {
    // Only a browser on the host of its container sees that.
    if (aborted.length === 0) throw error;
    await networkSettled();
    await page.reload();
  });
  await launcher.click();
  await page.getByText('Python 3 (ipykernel) | Idle').waitFor();
  await page.locator('.jp-Notebook .jp-Cell .cm-content').first().click();
  await page.keyboard.type('print("sum", 20 + 22)');
  await page.keyboard.press('Shift+Enter');
  await page.locator('.jp-OutputArea-output', { hasText: 'sum 42' }).waitFor();
  const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 10 } });
  expect(instances.map(({ instanceRuntimeInfo }) => instanceRuntimeInfo.status)).toEqual(['Running']);
});
