/**
 * The way of a visitor whose session expired, in a real browser: from the gateway's page to the
 * login of the API on another origin, and back to the address asked for.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser } from '../fixtures/browser.ts';
import { launchFirst } from '../fixtures/first-launch.ts';
import { freePort } from '../fixtures/free-port.ts';
import { login, PASSWORD, startServerProcess, type ServerProcess } from '../fixtures/server-process.ts';

const PORT = 7000;

let server: ServerProcess;
let browser: Browser;
let context: BrowserContext;
let instanceId: string;
let gateway: string;

beforeAll(async () => {
  const gatewayPort = await freePort();
  gateway = `gpu.localhost:${gatewayPort}`;
  server = await startServerProcess({
    nodePorts: '32400-32409',
    settings: {
      BERTH_ENGINE: 'simulated',
      BERTH_GATEWAY_LISTEN: `127.0.0.1:${gatewayPort}`,
      BERTH_DOMAIN: '*.gpu.localhost',
      BERTH_GATEWAY_URL: `http://${gateway}`,
    },
  });
  const { client } = await login(server);
  const initScript = `# berth-sim: listen ${PORT} http\n`;
  ({ instanceId } = await launchFirst(client, { name: 'opens', initScript, nodePorts: [] }));
  browser = await launchBrowser();
  context = await browser.newContext();
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens a page that collects what the browser blocks. */
async function visit(address: string): Promise<{ page: Page; blocked: string[]; status: number | undefined }> {
  const page = await context.newPage();
  const blocked: string[] = [];
  page.on('console', (line) => {
    if (/Content Security Policy|Refused/.test(line.text())) blocked.push(line.text());
  });
  const status = (await page.goto(address))?.status();
  return { page, blocked, status };
}

test('logs in and returns to the page asked for; later returns without typing, to a host of a port too', async () => {
  const asked = `http://${gateway}/notebook/${instanceId}/lab/tree/a%20b?x=1&y=%2F`;
  const first = await visit(asked);
  expect(first.status).toBe(401);
  await first.page.getByRole('link', { name: 'Log in' }).click();
  expect(new URL(first.page.url()).origin).toBe(server.apiUrl);
  await first.page.getByLabel('Name or email').fill('admin');
  await first.page.getByLabel('Password').fill('wrong');
  await first.page.getByRole('button', { name: 'Log in' }).click();
  await first.page.getByText('The username (or email) or the password is wrong.').waitFor();
  await first.page.getByLabel('Password').fill(PASSWORD);
  await first.page.getByRole('button', { name: 'Log in' }).click();
  await first.page.waitForURL(asked);
  expect(await first.page.locator('body').innerText()).toContain(`/notebook/${instanceId}/lab/tree/a%20b?x=1&y=%2F`);

  await context.clearCookies({ name: 'berth_gateway' });
  const ownHost = `http://${PORT}-${instanceId}.${gateway}//deep/path?q=%3F`;
  const second = await visit(ownHost);
  expect(second.status).toBe(401);
  await second.page.getByRole('link', { name: 'Log in' }).click();
  await second.page.getByRole('button', { name: 'Continue as admin' }).click();
  await second.page.waitForURL(ownHost);
  expect(await second.page.locator('body').innerText()).toContain('//deep/path?q=%3F');
  expect([...first.blocked, ...second.blocked]).toEqual([]);
});

test('is shown in no frame', async () => {
  const page = await context.newPage();
  await page.goto(`${server.apiUrl}/readyz`);
  await page.setContent(`<iframe src="${server.apiUrl}/login?to=/notebook/${instanceId}/"></iframe>`);
  await expect.poll(() => page.frames().at(-1)?.url()).toMatch(/^chrome-error:/);
});
