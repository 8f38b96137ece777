/** The console by a keyboard alone. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { launchFirst } from '../fixtures/first-launch.ts';
import { leave, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32560-32579');
const MOST_TABS = 80;

/** Presses Tab until the focus is on the control, which shows it. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  for (let pressed = 0; pressed < MOST_TABS; pressed += 1) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(`(() => {
      const { activeElement: one } = document;
      const { outlineStyle, boxShadow } = getComputedStyle(one);
      return { name: one.getAttribute('aria-label') ?? one.innerText ?? '', isSeen: outlineStyle !== 'none' || boxShadow !== 'none' };
    })()`);
    const { name: found, isSeen } = focused as { name: string; isSeen: boolean };
    if (!name.test(found)) continue;
    expect(isSeen, `${found} shows that it has the focus`).toBe(true);
    return;
  }
  throw new Error(`no control ${name} within ${MOST_TABS} presses of Tab`);
}

test('launches, opens the menu of an instance and stops it', async () => {
  const { username, client } = await server.newAccount();
  const { context, page } = await visit(server, username);
  try {
    await page.goto(`${server.server.apiUrl}/instances`);
    await page.getByRole('heading').first().waitFor();
    await tabTo(page, /Skip to the content/);
    await page.keyboard.press('Enter');
    await tabTo(page, /^Launch/);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/launch*');
    await page.getByRole('button', { name: 'Launch', exact: true }).waitFor();
    await tabTo(page, /^Launch$/);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/(instances|notebook)\/notebook-/);
    const { instances } = await client.listInstances({ pager: { currentPage: 1, pageSize: 1 } });
    const { instanceId } = instances[0]?.instanceMetadata ?? expect.fail('no instance was launched');
    await page.goto(`${server.server.apiUrl}/instances`);
    await page.getByRole('button', { name: 'Open' }).first().waitFor();
    await tabTo(page, /More actions/);
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Stop' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Escape');
    await tabTo(page, /More actions/);
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: 'Stop' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('cell').getByText('Stopped').waitFor();
    const { instance } = await client.getInstance({ instanceId });
    expect(instance.instanceRuntimeInfo.status).toBe('Stopped');
  } finally {
    await leave(context);
  }
});

/** Within the dialog, to a pixel. */
const isChosenSeen = `(() => {
  const bottomOf = (selector) => document.querySelector(selector).getBoundingClientRect().bottom;
  return bottomOf('[role=option][aria-selected=true]') <= bottomOf('[role=dialog]') + 1;
})()`;
const composedEnter = `document.querySelector('[role=combobox]')
  .dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true }))`;

test('the palette leads to pages, instances and acts', async () => {
  const { username, client } = await server.newAccount();
  const { instanceId } = await launchFirst(client, { name: 'needle', initScript: '', nodePorts: [] });
  const { context, page } = await visit(server, username);
  const search = async (text: string): Promise<void> => {
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').getByRole('combobox').fill(text);
  };
  const dialog = page.getByRole('dialog');
  try {
    await page.goto(`${server.server.apiUrl}/billing`);
    await page.getByRole('heading').first().waitFor();
    await search('');
    await page.keyboard.press('ArrowUp');
    await expect.poll(() => dialog.getByRole('option').last().getAttribute('aria-selected')).toBe('true');
    await expect.poll(() => page.evaluate(isChosenSeen)).toBe(true);
    await page.keyboard.press('Escape');
    await search('Volumes');
    await page.evaluate(composedEnter);
    expect(await dialog.isVisible(), 'the Enter of an input method chooses nothing').toBe(true);
    await dialog.getByText('Volumes').first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/volumes');
    await search('needle');
    await page.getByRole('dialog').getByText('needle').first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/instances/${instanceId}`);
    await search('stop needle');
    await page.getByRole('dialog').getByText(/Stop/).first().waitFor();
    await page.keyboard.press('Enter');
    await expect
      .poll(async () => (await client.getInstance({ instanceId })).instance.instanceRuntimeInfo.status)
      .toBe('Stopped');
  } finally {
    await leave(context);
  }
});
