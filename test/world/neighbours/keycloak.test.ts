/** Logins of people in Chromium by a Keycloak as it is delivered. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { makeClient, type Client } from '../../../src/contract/client.ts';
import { findProgram } from '../../../scripts/lib/run.mjs';
import { launchBrowser } from '../../fixtures/browser.ts';
import { login, PASSWORD, startServerProcess, type ServerProcess } from '../../fixtures/server-process.ts';
import { startKeycloak, type Keycloak } from './keycloak.ts';

const REALM = 'company';
const SECRET = 'a secret of the client';

let folder: string | undefined;
let keycloak: Keycloak;
let server: ServerProcess;
let chromium: Browser;
let admin: Client;

const missing = ['java', 'unzip'].filter((name) => findProgram(name) === undefined);

beforeAll(async () => {
  if (missing.length > 0) return;
  folder = await mkdtemp(join(tmpdir(), 'berth-oidc-'));
  await writeFile(join(folder, 'secret'), SECRET);
  keycloak = await startKeycloak();
  await keycloak.admin('POST', '', { realm: REALM, enabled: true, sslRequired: 'none' });
  server = await startServerProcess({
    nodePorts: '32650-32659',
    settings: {
      BERTH_ENGINE: 'simulated',
      BERTH_OIDC_ISSUER: `${keycloak.origin}/realms/${REALM}`,
      BERTH_OIDC_CLIENT_ID: 'berth',
      BERTH_OIDC_CLIENT_SECRET_FILE: join(folder, 'secret'),
      BERTH_OIDC_EMAIL_DOMAINS: 'example.org',
      BERTH_OIDC_ROLES: 'admin=berth-admins',
    },
  });
  await keycloak.admin('POST', `/${REALM}/clients`, {
    clientId: 'berth',
    secret: SECRET,
    publicClient: false,
    standardFlowEnabled: true,
    redirectUris: [`${server.apiUrl}/api/user/oidc/callback`],
    attributes: { 'backchannel.logout.url': `${server.apiUrl}/api/user/oidc/backchannel` },
  });
  await keycloak.admin('POST', `/${REALM}/groups`, { name: 'berth-admins' });
  admin = (await login(server, 'admin', PASSWORD)).client;
  chromium = await launchBrowser();
});
afterAll(async () => {
  await chromium?.close();
  await server?.stop();
  await keycloak?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});
beforeEach(({ skip }) => skip(missing.length > 0, `Keycloak needs ${missing.join(' and ')}, which this machine lacks`));

async function newPerson(username: string, more: object = {}): Promise<{ id: string; path: string }> {
  await keycloak.admin('POST', `/${REALM}/users`, {
    username,
    enabled: true,
    email: `${username}@example.org`,
    emailVerified: true,
    firstName: 'A',
    lastName: 'B',
    credentials: [{ type: 'password', value: username, temporary: false }],
    ...more,
  });
  const [user] = (await keycloak.admin('GET', `/${REALM}/users?username=${username}&exact=true`)) as { id: string }[];
  const id = user?.id ?? '';
  return { id, path: `/${REALM}/users/${id}` };
}

async function newContext(): Promise<BrowserContext> {
  const context = await chromium.newContext();
  onTestFinished(() => context.close());
  return context;
}

const loginUrl = (): string => `${server.apiUrl}/api/user/oidc/login`;

async function fillIn(page: Page, username: string): Promise<void> {
  await page.fill('#username', username);
  await page.fill('#password', username);
  await page.click('#kc-login');
}

async function logIn(context: BrowserContext, username: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(loginUrl());
  await fillIn(page, username);
  await page.waitForURL(({ origin }) => origin === server.apiUrl);
  return page;
}

async function clientOf(context: BrowserContext): Promise<Client> {
  const cookies = await context.cookies(server.apiUrl);
  const token = cookies.find(({ name }) => name === 'AccessToken')?.value ?? '';
  return makeClient({ baseUrl: `${server.apiUrl}/api`, credential: { kind: 'token', token } });
}

const roleOf = async (username: string): Promise<string | undefined> =>
  (await admin.listAccounts({ pager: { currentPage: 1, pageSize: 10 }, search: username })).accounts[0]?.role;

test('lets a person in whose address is verified, and says to another what is missing', async () => {
  const { path } = await newPerson('anna', { emailVerified: false });
  const context = await newContext();
  const page = await logIn(context, 'anna');
  expect(await page.textContent('main')).toContain('says that your email address "anna@example.org" is not verified');
  await keycloak.admin('PUT', path, { emailVerified: true });
  await page.getByRole('link', { name: 'Log in with another account' }).click();
  await page.waitForURL(({ origin }) => origin === keycloak.origin);
  // Keycloak asks again, and lets the person choose another account.
  await page.fill('#password', 'anna');
  await page.click('#kc-login');
  await page.waitForURL(({ origin }) => origin === server.apiUrl);
  expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'anna', email: 'anna@example.org' });
});

test('gives the role of a group with its path, and keeps the role once Keycloak sends no groups', async () => {
  const { path } = await newPerson('berta');
  const [group] = (await keycloak.admin('GET', `/${REALM}/groups`)) as { id: string }[];
  await keycloak.admin('PUT', `${path}/groups/${group?.id}`);
  await logIn(await newContext(), 'berta');
  expect(await roleOf('berta')).toBe('user');
  expect(server.output()).toContain('the provider sends no claim \\"groups\\", so the login changes no role');
  const [client] = (await keycloak.admin('GET', `/${REALM}/clients?clientId=berth`)) as { id: string }[];
  const mappers = `/${REALM}/clients/${client?.id}/protocol-mappers/models`;
  await keycloak.admin('POST', mappers, {
    name: 'groups',
    protocol: 'openid-connect',
    protocolMapper: 'oidc-group-membership-mapper',
    config: { 'claim.name': 'groups', 'full.path': 'true', 'id.token.claim': 'true' },
  });
  await logIn(await newContext(), 'berta');
  expect(await roleOf('berta')).toBe('admin');
  const [mapper] = (await keycloak.admin('GET', mappers)) as { id: string }[];
  await keycloak.admin('DELETE', `${mappers}/${mapper?.id}`);
  await logIn(await newContext(), 'berta');
  expect(await roleOf('berta')).toBe('admin');
});

test('finishes the logins of two tabs', async () => {
  await newPerson('carla');
  const context = await newContext();
  const [first, second] = [await context.newPage(), await context.newPage()];
  await first.goto(loginUrl());
  await second.goto(loginUrl());
  await fillIn(first, 'carla');
  const isBack = ({ origin }: URL): boolean => origin === server.apiUrl;
  await first.waitForURL(isBack);
  // Keycloak continues the second tab by itself, or at its next visit.
  if (!isBack(new URL(second.url()))) await second.goto(loginUrl());
  await second.waitForURL(isBack);
  for (const page of [first, second]) expect(await page.content()).not.toContain('Not possible');
  expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'carla' });
});

test('ends the login at Keycloak with that at Berth, and that at Berth with that at Keycloak', async () => {
  const { path } = await newPerson('dora');
  const context = await newContext();
  const page = await logIn(context, 'dora');
  await (await clientOf(context)).logout();
  await page.goto(`${server.apiUrl}/api/user/oidc/logout`);
  await page.waitForURL(({ origin, pathname }) => origin === server.apiUrl && pathname === '/login');
  await page.goto(loginUrl());
  expect(await page.isVisible('#password')).toBe(true);
  await fillIn(page, 'dora');
  await page.waitForURL(({ origin }) => origin === server.apiUrl);
  const client = await clientOf(context);
  await client.userInfo();
  await keycloak.admin('POST', `${path}/logout`);
  await expect
    .poll(() =>
      client.userInfo().then(
        () => 'in',
        () => 'out',
      ),
    )
    .toBe('out');
});

test('takes tokens of a key that Keycloak has since the last login', async () => {
  await newPerson('emma');
  const { id } = (await keycloak.admin('GET', `/${REALM}`)) as { id: string };
  await keycloak.admin('POST', `/${REALM}/components`, {
    name: 'a newer key',
    providerId: 'rsa-generated',
    providerType: 'org.keycloak.keys.KeyProvider',
    parentId: id,
    config: { priority: ['200'], algorithm: ['RS256'], keySize: ['2048'] },
  });
  const context = await newContext();
  const page = await logIn(context, 'emma');
  // Within a minute after the last login the first answer has an unknown key.
  if (await page.isVisible('text=Not possible')) {
    await page.getByRole('link', { name: 'Log in again' }).click();
    await page.waitForURL(({ pathname }) => pathname === '/');
  }
  expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'emma' });
});
