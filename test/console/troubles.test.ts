/** What went wrong is said, with the way on. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { longTest } from '../fixtures/long-test.ts';
import { launchFirst } from '../fixtures/first-launch.ts';
import { PASSWORD, until } from '../fixtures/server-process.ts';
import { leave, settled, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32480-32499');

async function visited(at: string, act: (page: Page) => Promise<void>): Promise<void> {
  const { context, page } = await visit(server, 'admin');
  try {
    await page.goto(server.server.apiUrl + at);
    await act(page);
  } finally {
    await leave(context);
  }
}

longTest('a page that failed to load comes once the server answers', async () => {
  await visited('/settings', async (page) => {
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    await page.context().setOffline(true);
    await page.getByRole('link', { name: 'Images' }).click();
    await page.getByText('The server does not answer').waitFor();
    await page.context().setOffline(false);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('heading', { name: 'Images' }).waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });
});

test('a form that is sent after the session ended stays, leads to the login, and is sent after it', async () => {
  await visited('/volumes?create=true', async (page) => {
    await settled(page);
    const name = page.getByLabel('Name', { exact: true });
    const create = page.getByRole('button', { name: 'Create', exact: true });
    await name.fill('kept');
    const { regions } = await server.admin.listRegions();
    const region = regions[0]?.regionId ?? expect.fail('no region');
    const makeVolume = (made: string) =>
      server.admin.createVolume({ name: made, sizeGB: 1, region, volumeType: 'filesystem' });
    // The page follows the events before its session ends.
    await makeVolume('before');
    await page.getByText('before', { exact: true }).waitFor();
    await page.context().clearCookies();
    // The page reads its volumes again, and the read is refused.
    const refused = page.waitForResponse((response) => response.status() === 401);
    await makeVolume('elsewhere');
    await refused;
    await create.click();
    // The list behind the dialog may have such a link as well.
    const link = page.getByRole('dialog').getByRole('link', { name: 'Log in' });
    expect(await link.getAttribute('href')).toBe('/login?to=%2Fvolumes%3Fcreate%3Dtrue');
    expect(await link.getAttribute('target')).toBe('_blank');
    expect(await name.inputValue()).toBe('kept');
    await page.context().request.post(`${server.server.apiUrl}/api/user/login`, {
      data: { username: 'admin', password: PASSWORD },
    });
    await create.click();
    await page.getByRole('link', { name: 'kept' }).waitFor();
    await page.getByRole('link', { name: 'elsewhere' }).waitFor();
  });
});

longTest('an address of what is not there leads to the list', async () => {
  await visited('/volumes/none', async (page) => {
    await page.getByRole('heading', { name: 'No such volume' }).waitFor();
    await page.locator('main').getByRole('link', { name: 'Volumes' }).click();
    await page.waitForURL('**/volumes');
    await page.goto(`${server.server.apiUrl}/operator/accounts/none`);
    await page.getByRole('heading', { name: 'No such account' }).waitFor();
    await page.locator('main').getByRole('link', { name: 'Accounts' }).click();
    await page.waitForURL('**/operator/accounts');
    await page.goto(`${server.server.apiUrl}/operator/audit?account=adm`);
    await page.getByRole('heading', { name: 'No such account' }).waitFor();
    expect(await page.getByRole('table').count()).toBe(0);
  });
});

longTest('a refusal of the API begins in the language of the page', async () => {
  const { regions } = await server.admin.listRegions();
  const region = regions[0]?.regionId ?? expect.fail('no region');
  await server.admin.createVolume({ name: 'taken', sizeGB: 1, region, volumeType: 'filesystem' });
  const { context, page } = await visit(server, 'admin', { language: 'zh-CN' });
  try {
    await page.goto(`${server.server.apiUrl}/volumes?create=true`);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').first().fill('taken');
    await dialog.locator('button[type=submit]').click();
    await dialog.getByText(/^名称已被占用。/).waitFor();
  } finally {
    await leave(context);
  }
});

test('the health page warns of what needs the operator while the server is ready', async () => {
  await visited('/operator/health', async (page) => {
    await page.getByText('All is well').waitFor();
    const readiness = { ready: true, status: 'degraded', text: 'the provider refuses the secret' };
    await page.route('**/readyz', (route) => route.fulfill({ json: readiness }));
    await page.reload();
    await page.getByText('something needs you: the provider refuses the secret').waitFor();
    expect(await page.getByText('All is well').count()).toBe(0);
  });
});

test('a lost root disk is replaced only after a dialog that says what is gone', async () => {
  const { instanceId } = await launchFirst(server.admin, { name: 'pruned', initScript: '', nodePorts: [] });
  await server.admin.stop({ instanceId });
  await until(
    async () => (await server.admin.getInstance({ instanceId })).instance.instanceRuntimeInfo.status,
    (status) => status === 'Stopped',
  );
  await visited('/', async (page) => {
    await page.route('**/instance/get', async (route) => {
      const answer: Awaited<ReturnType<typeof server.admin.getInstance>> = await (await route.fetch()).json();
      const instanceRuntimeInfo = { ...answer.instance.instanceRuntimeInfo, diagnosisReason: 'RootDiskLost' };
      const instance = { ...answer.instance, instanceRuntimeInfo };
      await route.fulfill({ json: { ...answer, instance } });
    });
    await page.goto(`${server.server.apiUrl}/instances/${instanceId}`);
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Start pruned with a new root disk?' });
    await dialog.getByText('The root disk is gone').waitFor();
    const request = page.waitForRequest('**/instance/start');
    await dialog.getByRole('button', { name: 'Start with a new root disk' }).click();
    expect((await request).postDataJSON()).toMatchObject({ instanceId, newRootDisk: true });
  });
});
