/** The console behind a proxy: below a path, and what it says of the proxy. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { launchBrowser } from '../fixtures/browser.ts';
import { startFrontedServer, type Change, type FrontedServer } from '../fixtures/front-proxies.ts';
import { login, PASSWORD } from '../fixtures/server-process.ts';

/** A logged-in page of a browser for which each name is this machine. */
async function visited(
  { apiUrl }: FrontedServer,
  act: (page: Page, troubles: string[]) => Promise<void>,
): Promise<void> {
  const browser = await launchBrowser('--host-resolver-rules=MAP *.example.org 127.0.0.1');
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, locale: 'en-US' });
    const page = await context.newPage();
    const troubles: string[] = [];
    page.on('console', (line) => line.type() === 'error' && troubles.push(line.text()));
    page.on('pageerror', (error) => troubles.push(String(error)));
    await page.goto(`${apiUrl}/login`);
    await page.getByLabel('Name or email').fill('admin');
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await page.getByRole('link', { name: 'Volumes' }).first().waitFor();
    await act(page, troubles);
  } finally {
    await browser.close();
  }
}

test('loads, navigates and follows events below a path', async () => {
  const fronted = await startFrontedServer({ nodePorts: '32570-32574', below: '/berth' });
  try {
    await fronted.behind('nginx', () =>
      visited(fronted, async (page, troubles) => {
        expect(new URL(page.url()).pathname).toBe('/berth/instances');
        await page.getByRole('link', { name: 'Volumes' }).first().click();
        await page.getByRole('heading', { name: 'Volumes' }).waitFor();
        expect(new URL(page.url()).pathname).toBe('/berth/volumes');
        const { client } = await login(fronted.server, 'admin');
        const { regions } = await client.listRegions();
        const region = regions[0]?.regionId ?? expect.fail('no region');
        await client.createVolume({ name: 'came', sizeGB: 1, region, volumeType: 'filesystem' });
        await page.getByRole('link', { name: 'came' }).waitFor();
        await page.goto(`${fronted.apiUrl}/nowhere`);
        await page.getByRole('link', { name: 'Instances' }).first().click();
        await page.waitForURL(`${fronted.apiUrl}/instances`);
        await page.goto(`${fronted.apiUrl}/billing`);
        await page.getByRole('button', { name: 'Statement' }).click();
        const file = page.getByRole('menuitem', { name: /xlsx/ });
        const address = (await file.getAttribute('href')) ?? '';
        const status = await page.evaluate(async (url) => (await fetch(url)).status, address);
        expect([address, status]).toEqual([expect.stringMatching(/^\/berth\/api\/billing\//), 200]);
        expect(troubles.filter((one) => !/status of 404/.test(one))).toEqual([]);
        await page.context().clearCookies();
        await page.goto(`${fronted.apiUrl}/volumes`);
        await page.waitForURL(`${fronted.apiUrl}/login?to=%2Fvolumes`);
      }),
    );
  } finally {
    await fronted.stop();
  }
});

test('names on the health page what each proxy does to API, gateway and a port', async () => {
  const fronted = await startFrontedServer({ nodePorts: '32575-32579' });
  const check = async (page: Page): Promise<void> => {
    await page.goto(`${fronted.apiUrl}/operator/health`);
    await page.getByRole('link', { name: 'Check what is in front' }).click();
    for (const url of [fronted.apiUrl, fronted.gatewayUrl, fronted.portUrl])
      await page.getByText(url, { exact: true }).waitFor();
  };
  const noUpgrade: Change = [/ {4}proxy_set_header (?:Upgrade|Connection) .*\n/g, ''];
  try {
    await fronted.behind('nginx', () =>
      visited(fronted, async (page) => {
        await check(page);
        expect(await page.getByText('Nothing is changed or refused on the way.').count()).toBe(3);
      }),
    );
    const changes = [noUpgrade];
    await fronted.behind(
      'nginx',
      () =>
        visited(fronted, async (page) => {
          await check(page);
          expect(await page.getByText(/pass the headers Upgrade and Connection on/).count()).toBe(3);
        }),
      { changes },
    );
  } finally {
    await fronted.stop();
  }
});
