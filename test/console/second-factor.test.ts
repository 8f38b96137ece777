/** Second factor in the console: an authenticator app, recovery codes, a role that needs one. */
import { execFileSync } from 'node:child_process';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { PASSWORD } from '../fixtures/server-process.ts';
import { settled, useConsoleServer, visit } from './console-server.ts';

const server = useConsoleServer('32660-32669', { BERTH_SECOND_FACTOR_ROLE: 'operator' });

/** The code that an app on another device shows. */
const codeOfApp = (secret: string, step = 0): string => {
  const now = `@${Math.floor(Date.now() / 1_000) + 30 * step}`;
  return execFileSync('oathtool', ['--totp', '--base32', `--now=${now}`, secret], { encoding: 'utf8' }).trim();
};

// Its login may do nothing else before.
beforeAll(async () => {
  const { secret } = await server.admin.createTotp({ password: PASSWORD });
  await server.admin.confirmTotp({ code: codeOfApp(secret) });
});

/** Sets up an app in the settings; returns its secret and the recovery codes. */
async function setUpApp(page: Page): Promise<{ secret: string; recoveryCodes: string[] }> {
  await page.getByRole('button', { name: 'Set up an app' }).click();
  await page.getByLabel('Password of the account').fill(PASSWORD);
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('img', { name: 'QR code with the secret' }).waitFor();
  const secret = (await page.getByRole('dialog').locator('code').textContent()) ?? '';
  await page.getByLabel('Code of the app').fill(codeOfApp(secret));
  await page.getByRole('button', { name: 'Confirm' }).click();
  const codes = page.getByRole('dialog', { name: 'Recovery codes' }).locator('pre');
  const recoveryCodes = ((await codes.textContent()) ?? '').split('\n');
  expect(recoveryCodes).toHaveLength(10);
  await page.getByText('Close', { exact: true }).click();
  return { secret, recoveryCodes };
}

async function logIn(page: Page, username: string, code: string): Promise<void> {
  await page.getByLabel('Name or email').fill(username);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Log in' }).click();
}

test('an app that is set up by its QR code is asked for at the login, until it is removed', async () => {
  const { username } = await server.newAccount();
  const { context, page, troubles } = await visit(server, username);
  const { apiUrl } = server.server;
  await page.goto(`${apiUrl}/settings`);
  const { secret, recoveryCodes } = await setUpApp(page);
  await page.getByText('Recovery codes: 10 left').waitFor();
  expect(troubles).toEqual([]);

  await context.clearCookies();
  await page.goto(`${apiUrl}/volumes`);
  await logIn(page, username, '000000');
  await page.getByText('The code is wrong, or was used before').waitFor();
  await page.getByLabel('Code').fill(recoveryCodes[0] ?? '');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL('**/volumes');

  await page.goto(`${apiUrl}/settings`);
  await page.getByText('Recovery codes: 9 left').waitFor();
  await page.getByRole('button', { name: 'Remove: Authenticator app' }).click();
  await page.getByLabel('Password of the account').fill(PASSWORD);
  await page.getByLabel('Code').fill(codeOfApp(secret, 1));
  await page.getByRole('button', { name: 'Remove', exact: true }).last().click();
  await page.getByText('None: the password alone opens the account.').waitFor();
  await context.close();
});

test('a role that needs one sees the set-up alone, then everything; an administrator resets it', async () => {
  const { username, client } = await server.newAccount();
  const { userId } = await client.userInfo();
  await server.admin.setAccountRole({ accountId: userId, role: 'operator' });
  const { context, page } = await visit(server, username);
  const { apiUrl } = server.server;
  await page.goto(`${apiUrl}/operator/fleet`);
  await page.getByText('Your role needs a second factor.').waitFor();
  expect(new URL(page.url()).pathname).toBe('/settings');
  expect(await page.getByRole('heading', { name: 'Quotas' }).count()).toBe(0);
  await setUpApp(page);
  await page.waitForURL('**/instances');
  await page.goto(`${apiUrl}/operator/fleet`);
  await settled(page);
  await page.getByRole('heading', { name: 'Fleet' }).waitFor();
  await context.close();
  expect((await server.admin.getAccount({ accountId: userId })).account.secondFactors).toEqual(['totp']);
});
