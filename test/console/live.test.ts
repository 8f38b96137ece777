/** Pages follow the event stream: in every tab, and after a lost connection. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { launchFirst } from '../fixtures/first-launch.ts';
import { longTest } from '../fixtures/long-test.ts';
import { leave, useConsoleServer, type Visit, visit } from './console-server.ts';

const server = useConsoleServer('32520-32539');

/** A page that is loaded again has no mark. */
const mark = (page: Page): Promise<unknown> => page.evaluate('window.isMarked = true');
const isMarked = (page: Page): Promise<unknown> => page.evaluate('window.isMarked === true');

async function twoTabs(username: string): Promise<Visit & { tabs: [Page, Page] }> {
  const visited = await visit(server, username);
  const tabs: [Page, Page] = [visited.page, await visited.context.newPage()];
  for (const tab of tabs) {
    await tab.goto(`${server.server.apiUrl}/instances`);
    await tab.getByRole('heading').first().waitFor();
    await mark(tab);
  }
  return { ...visited, tabs };
}

test('a change of one tab shows in the other, and in neither by a reload', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'first-name', initScript: '', nodePorts: [] });
  const { context, tabs, troubles } = await twoTabs(username);
  try {
    await tabs[0].getByRole('link', { name: 'first-name' }).waitFor();
    await tabs[0].getByRole('button', { name: 'More actions' }).first().click();
    await tabs[0].getByRole('menuitem', { name: 'Stop' }).click();
    for (const tab of tabs) await tab.getByRole('cell').getByText('Stopped').waitFor();
    await client.updateInstance({ instanceId, name: 'second-name' });
    for (const tab of tabs) {
      await tab.getByRole('link', { name: 'second-name' }).waitFor();
      expect(await isMarked(tab)).toBe(true);
    }
    // A tab that closes takes nothing from the other.
    await tabs[1].close();
    await client.updateInstance({ instanceId, name: 'third-name' });
    await tabs[0].getByRole('link', { name: 'third-name' }).waitFor();
    expect(troubles).toEqual([]);
  } finally {
    await leave(context);
  }
});

longTest('a lost connection is said in every tab, and what was missed is caught up', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'before', initScript: '', nodePorts: [] });
  const { context, tabs } = await twoTabs(username);
  try {
    for (const tab of tabs) await tab.getByRole('link', { name: 'before' }).waitFor();
    await server.server.kill('SIGKILL');
    for (const tab of tabs) {
      await tab.getByText(/Live updates lost/).waitFor();
      // What was known stays to be read.
      expect(await tab.getByRole('link', { name: 'before' }).isVisible()).toBe(true);
    }
    await server.server.start();
    await client.updateInstance({ instanceId, name: 'after' });
    for (const tab of tabs) {
      await tab.getByRole('link', { name: 'after' }).waitFor();
      await tab.getByText(/Live updates lost/).waitFor({ state: 'hidden' });
      expect(await isMarked(tab)).toBe(true);
    }
  } finally {
    await leave(context);
  }
});
