/** Second factor in the console: app, recovery codes, a role that needs one, passkeys. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Page } from 'playwright-core';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { PASSWORD, startServerProcess } from '../fixtures/server-process.ts';
import { leave, settled, useConsoleServer, visit } from './console-server.ts';

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
  await leave(context);
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
  await leave(context);
  expect((await server.admin.getAccount({ accountId: userId })).account.secondFactors).toEqual(['totp']);
});

/** Chromium's virtual authenticator, which verifies its person. */
async function withAuthenticator(page: Page): Promise<{ setVerified(isVerified: boolean): Promise<void> }> {
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return {
    async setVerified(isUserVerified) {
      await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
    },
  };
}

/** The console at a host name: browsers allow no passkey at an IP address. */
const atLocalhost = (): string => server.server.apiUrl.replace('127.0.0.1', 'localhost');

const post = (path: string, body: object): Promise<Response> =>
  fetch(`${atLocalhost()}/api${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: atLocalhost() },
    body: JSON.stringify(body),
  });

/** What a page at its own origin gets from the authenticator. */
const assertionScript = (challenge: string, userVerification: string): string => `(async () => {
  const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
  const publicKey = { challenge: bytes('${challenge}'), rpId: 'localhost', userVerification: '${userVerification}' };
  const { id, response } = (await navigator.credentials.get({ publicKey })).toJSON();
  const { clientDataJSON, authenticatorData, signature } = response;
  return { id, clientDataJSON, authenticatorData, signature };
})()`;

async function freshChallenge(): Promise<string> {
  const { challenge } = z
    .object({ challenge: z.string() })
    .parse(await (await post('/user/login/passkey/begin', {})).json());
  return challenge;
}

const assertionOf = async (page: Page, challenge: string, verification = 'required'): Promise<object> =>
  z
    .object({ id: z.string() })
    .loose()
    .parse(await page.evaluate(assertionScript(challenge, verification)));

test('a passkey logs in by itself, once for each challenge and at this origin alone, until it is removed', async () => {
  const { username, client } = await server.newAccount();
  const context = await server.browser.newContext();
  const page = await context.newPage();
  const authenticator = await withAuthenticator(page);
  await page.goto(`${atLocalhost()}/login?to=/settings`);
  await page.getByLabel('Name or email').fill(username);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in', exact: true }).click();
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByLabel('Name', { exact: true }).fill('Laptop');
  await page.getByLabel('Password of the account').fill(PASSWORD);
  await page.getByRole('button', { name: 'Continue' }).click();
  const codes = page.getByRole('dialog', { name: 'Recovery codes' }).locator('pre');
  const [recoveryCode = ''] = ((await codes.textContent()) ?? '').split('\n');
  await page.getByText('Close', { exact: true }).click();
  await page.getByText('Passkey: Laptop').waitFor();
  // The login that made the account's client is another one.
  await expect(client.userInfo()).rejects.toMatchObject({ status: 401 });
  const byPassword = await post('/user/login', { username, password: PASSWORD });
  expect([byPassword.status, byPassword.headers.get('x-berth-second-factor')]).toEqual([401, 'code']);

  await context.clearCookies();
  await page.goto(`${atLocalhost()}/login?to=/volumes`);
  await page.getByRole('button', { name: 'Log in with a passkey' }).click();
  await page.waitForURL('**/volumes');
  await page.getByRole('heading', { name: 'Volumes' }).waitFor();

  await page.goto(`${atLocalhost()}/login?to=/settings`);
  const assertion = await assertionOf(page, await freshChallenge());
  expect((await post('/user/login/passkey', assertion)).status).toBe(200);
  expect((await post('/user/login/passkey', assertion)).status).toBe(401);
  const ownChallenge = Buffer.from('a challenge of nobody').toString('base64url');
  expect((await post('/user/login/passkey', await assertionOf(page, ownChallenge))).status).toBe(401);
  await authenticator.setVerified(false);
  const unverified = await assertionOf(page, await freshChallenge(), 'discouraged');
  expect((await post('/user/login/passkey', unverified)).status).toBe(401);
  await authenticator.setVerified(true);
  // A page of another port of the host may use the passkey, and its origin is not the console's.
  const other = createServer((_, answer) => void answer.end('<!doctype html>')).listen(0, '127.0.0.1');
  await once(other, 'listening');
  const address = other.address();
  await page.goto(`http://localhost:${typeof address === 'object' ? address?.port : 0}/`);
  const foreign = await assertionOf(page, await freshChallenge());
  other.close();
  expect((await post('/user/login/passkey', foreign)).status).toBe(401);

  await page.goto(`${atLocalhost()}/settings`);
  const kept = await assertionOf(page, await freshChallenge());
  await page.getByRole('button', { name: 'Remove: Laptop' }).click();
  await page.getByLabel('Password of the account').fill(PASSWORD);
  await page.getByLabel('Code').fill(recoveryCode);
  await page.getByRole('button', { name: 'Remove', exact: true }).last().click();
  await page.getByText('None: the password alone opens the account.').waitFor();
  expect((await post('/user/login/passkey', kept)).status).toBe(401);
  expect((await post('/user/login', { username, password: PASSWORD })).status).toBe(200);
  await leave(context);
});

test('the set-up that a role needs works below the path of a proxy', async () => {
  const below = await startServerProcess({
    nodePorts: '32675-32679',
    settings: {
      BERTH_ENGINE: 'simulated',
      BERTH_SECOND_FACTOR_ROLE: 'admin',
      BERTH_API_URL: 'http://127.0.0.1:1/berth',
    },
  });
  onTestFinished(() => below.stop());
  const context = await server.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${below.apiUrl}/berth/login?to=/volumes`);
  await page.getByLabel('Name or email').fill('admin');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in', exact: true }).click();
  await page.waitForURL('**/berth/settings');
  await page.goto(`${below.apiUrl}/berth/volumes`);
  await page.waitForURL('**/berth/settings');
  await setUpApp(page);
  await page.waitForURL('**/berth/instances');
  expect(new URL(page.url()).pathname).toBe('/berth/instances');
  await leave(context);
});
