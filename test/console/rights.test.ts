/** Nobody sees a control that the API would refuse them. */
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { launchFirst } from '../fixtures/first-launch.ts';
import { leave, settled, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32540-32559');

const everybody = ['/instances', '/launch', '/volumes', '/images', '/billing', '/access', '/activity', '/settings'];
const operators = ['/operator/fleet', '/operator/catalog', '/operator/health', '/operator/orphans'];
const admins = ['/operator/accounts', '/operator/audit', '/welcome'];

/** These end the login of the test, or lead to the gateway. */
const LEAVES = /log out|^end |open|^launch$/i;

const used: string[] = [];
afterAll(() => process.stdout.write(`${used.length} controls were used\n`));

const namesOfButtons = `[...document.querySelectorAll('main button:enabled, main [role=button]')]
  .map((one) => one.getAttribute('aria-label') ?? one.textContent ?? '')`;

/** Opens every tab, and what each button opens; dialogs are closed, not sent. */
async function tryControls(page: Page): Promise<void> {
  const main = page.locator('main');
  const tabs = await main.getByRole('tab').count();
  for (let nth = 0; nth < Math.max(1, tabs); nth += 1) {
    if (tabs > 0) await main.getByRole('tab').nth(nth).click();
    await settled(page);
    const address = page.url();
    const names = z.array(z.string()).parse(await page.evaluate(namesOfButtons));
    for (const name of new Set(names)) {
      if (name === '' || LEAVES.test(name)) continue;
      const button = main.getByRole('button', { name, exact: true }).first();
      if (!(await button.isVisible()) || !(await button.isEnabled())) continue;
      await button.click();
      used.push(name);
      await settled(page);
      await page.keyboard.press('Escape');
      if (page.url() !== address) await page.goto(address);
      else if ((await page.getByRole('dialog').count()) > 0) await page.reload();
      await settled(page);
    }
  }
}

describe.each([
  { role: 'user', pages: everybody, closed: [...operators, ...admins] },
  { role: 'operator', pages: [...everybody, ...operators], closed: admins },
  { role: 'admin', pages: [...operators, ...admins], closed: [] },
] as const)('a person with the role $role', ({ role, pages, closed }) => {
  test('finds no control that is refused, and reads who opens the pages of others', async () => {
    const { username, client } = await server.newAccount();
    const { userId } = await client.userInfo();
    if (role !== 'user') await server.admin.setAccountRole({ accountId: userId, role });
    await launchFirst(client, { name: 'mine', initScript: '', nodePorts: [8000] });
    const { context, page } = await visit(server, username);
    const refused: string[] = [];
    page.on('response', (response) => {
      if (response.status() === 403) refused.push(`${response.request().method()} ${response.url()}`);
    });
    try {
      for (const at of pages) {
        await page.goto(server.server.apiUrl + at);
        await settled(page);
        await tryControls(page);
      }
      for (const at of closed) {
        await page.goto(server.server.apiUrl + at);
        await page.getByText(/For (operators|administrators)/).waitFor();
        expect(await page.locator('main').getByRole('button').count()).toBe(0);
        expect(await page.locator(`nav a[href="${at}"]`).count()).toBe(0);
      }
      expect(refused).toEqual([]);
    } finally {
      await leave(context);
    }
  });
});
