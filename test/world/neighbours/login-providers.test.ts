/** Logins of people in Chromium by login providers of their own programs, each case by each. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { makeClient, type Client } from '../../../src/contract/client.ts';
import { ensureDex } from '../../../scripts/lib/dex.mjs';
import { findProgram } from '../../../scripts/lib/run.mjs';
import { launchBrowser } from '../../fixtures/browser.ts';
import { bringsProgram } from '../../fixtures/programs.ts';
import { login, PASSWORD, startServerProcess, type ServerProcess } from '../../fixtures/server-process.ts';
import { startDex } from './providers/dex.ts';
import { startGlewlwyd } from './providers/glewlwyd.ts';
import { startKeycloak } from './providers/keycloak.ts';
import { startOidcProvider } from './providers/oidc-provider.ts';
import type { LoginProviderProgram, Person, StartOptions } from './providers/provider.ts';

const SECRET = 'a secret of the client';
const OTHER_SECRET = 'a secret of another client';

const people: Person[] = [
  { name: 'anna' },
  { name: 'arno', isVerified: false },
  { name: 'berta', isAdmin: true },
  { name: 'carla' },
  { name: 'dora' },
  { name: 'emma' },
  { name: 'frida' },
];

bringsProgram('go');
const dex = await ensureDex();

interface Tried {
  start: (options: StartOptions) => Promise<LoginProviderProgram>;
  missing: string[];
  nodePorts: string;
  secret?: string;
}

const lacking = (...programs: string[]): string[] => programs.filter((name) => findProgram(name) === undefined);

const tried: Record<string, Tried> = {
  'oidc-provider': { start: startOidcProvider, missing: [], nodePorts: '32650-32652' },
  Keycloak: { start: startKeycloak, missing: lacking('java', 'unzip'), nodePorts: '32653-32655' },
  Dex: {
    start: (options) => startDex(typeof dex === 'string' ? dex : '', options),
    missing: typeof dex === 'string' ? [] : [dex.why],
    nodePorts: '32656-32658',
  },
  Glewlwyd: {
    start: startGlewlwyd,
    missing: lacking('glewlwyd'),
    nodePorts: '32659-32659',
    // Glewlwyd does not decode the header, where spaces would be encoded (RFC 6749, 2.3.1).
    secret: 'a-secret_of.the*client',
  },
};

let chromium: Browser;
beforeAll(async () => {
  chromium = await launchBrowser();
});
afterAll(() => chromium?.close());

describe.each(Object.keys(tried))('%s', (name) => {
  const { start, missing, nodePorts, secret = SECRET } = tried[name] as Tried;
  let folder: string;
  let provider: LoginProviderProgram;
  let server: ServerProcess;
  let admin: Client;

  beforeAll(async () => {
    if (missing.length > 0) return;
    folder = await mkdtemp(join(tmpdir(), 'berth-oidc-'));
    for (const text of [secret, OTHER_SECRET]) await writeFile(join(folder, text), text);
    server = await startServerProcess({ nodePorts, settings: { BERTH_ENGINE: 'simulated' } });
    const api = `${server.apiUrl}/api/user/oidc`;
    provider = await start({
      people,
      secret,
      redirectUri: `${api}/callback`,
      backchannelUri: `${api}/backchannel`,
    });
    await connect();
    admin = (await login(server, 'admin', PASSWORD)).client;
  });
  afterAll(async () => {
    await server?.stop();
    await provider?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true });
  });
  beforeEach(({ skip }) => skip(missing.length > 0, `${name} needs what this machine lacks: ${missing.join(', ')}`));

  /** Restarts Berth with the present issuer of the provider. */
  async function connect(file = secret): Promise<void> {
    await server.kill('SIGTERM');
    await server.start({
      BERTH_OIDC_ISSUER: provider.issuer,
      BERTH_OIDC_CLIENT_ID: 'berth',
      BERTH_OIDC_CLIENT_SECRET_FILE: join(folder, file),
      BERTH_OIDC_EMAIL_DOMAINS: 'example.org',
      BERTH_OIDC_ROLES: 'admin=berth-admins',
      ...provider.settings,
    });
  }

  const loginUrl = (): string => `${server.apiUrl}/api/user/oidc/login`;
  const isBack = ({ origin }: URL): boolean => origin === server.apiUrl;

  async function newContext(): Promise<BrowserContext> {
    const context = await chromium.newContext();
    onTestFinished(() => context.close());
    return context;
  }

  async function logIn(context: BrowserContext, person: string): Promise<Page> {
    const page = await context.newPage();
    await page.goto(loginUrl());
    await provider.fillIn(page, person);
    await page.waitForURL(isBack);
    return page;
  }

  async function clientOf(context: BrowserContext): Promise<Client> {
    const cookies = await context.cookies(server.apiUrl);
    const token = cookies.find(({ name: cookie }) => cookie === 'AccessToken')?.value ?? '';
    return makeClient({ baseUrl: `${server.apiUrl}/api`, credential: { kind: 'token', token } });
  }

  const accountOf = async (person: string) =>
    (await admin.listAccounts({ pager: { currentPage: 1, pageSize: 10 }, search: person })).accounts[0];

  test('logs a person in, by what the metadata list', async () => {
    const context = await newContext();
    await logIn(context, 'anna');
    expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'anna', email: 'anna@example.org' });
  });

  test('says to the operator that the secret is wrong', async () => {
    onTestFinished(() => connect());
    await connect(OTHER_SECRET);
    const page = await logIn(await newContext(), 'anna');
    expect(await page.textContent('main')).toContain('its set-up needs a correction');
    const ready = await fetch(`${server.apiUrl}/readyz`);
    expect(await ready.text()).toContain('refuses the client or its secret');
  });

  test('refuses an address that is not verified, and lets another account in', async () => {
    const context = await newContext();
    const page = await logIn(context, 'arno');
    expect(await page.textContent('main')).toContain('says that your email address "arno@example.org" is not verified');
    await page.getByRole('link', { name: 'Log in with another account' }).click();
    await page.waitForURL((url) => !isBack(url));
    await provider.fillIn(page, 'anna');
    await page.waitForURL(isBack);
    expect(await page.content()).not.toContain('Not possible');
    expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'anna' });
  });

  test('gives the role of a group, and keeps the role once the provider sends no groups', async () => {
    await logIn(await newContext(), 'berta');
    expect((await accountOf('berta'))?.role).toBe('admin');
    await provider.leaveGroupsOut();
    await logIn(await newContext(), 'berta');
    expect((await accountOf('berta'))?.role).toBe('admin');
    expect(server.output()).toContain('the provider sends no claim \\"groups\\", so the login changes no role');
  });

  test('finishes the logins of two tabs', async () => {
    const context = await newContext();
    const [first, second] = [await context.newPage(), await context.newPage()];
    await first.goto(loginUrl());
    await second.goto(loginUrl());
    await provider.fillIn(first, 'carla');
    await first.waitForURL(isBack);
    if (provider.goesOnInTabs !== true) await provider.fillIn(second, 'carla');
    // By itself, or at the next visit.
    else if (!isBack(new URL(second.url()))) await second.goto(loginUrl());
    await second.waitForURL(isBack);
    for (const page of [first, second]) expect(await page.content()).not.toContain('Not possible');
    expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'carla' });
  });

  test('ends the login at the provider with that at Berth', async () => {
    const context = await newContext();
    // An open page of the console would lead to the login page.
    await (await logIn(context, 'dora')).close();
    await (await clientOf(context)).logout();
    const page = await context.newPage();
    await page.goto(`${server.apiUrl}/api/user/oidc/logout`);
    await provider.confirmLogout?.(page);
    if (provider.staysAtLogout !== true) await page.waitForURL((url) => isBack(url) && url.pathname === '/login');
    await page.goto(loginUrl());
    await provider.fillIn(page, 'dora');
    await page.waitForURL(isBack);
    expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'dora' });
  });

  test('ends the login at Berth with that at the provider', async () => {
    const context = await newContext();
    const page = await logIn(context, 'dora');
    const client = await clientOf(context);
    await client.userInfo();
    await provider.endLogin(page, 'dora');
    const state = (): Promise<string> =>
      client.userInfo().then(
        () => 'in',
        () => 'out',
      );
    await expect.poll(state).toBe('out');
  });

  test('takes tokens of a key that the provider has since the last login', async () => {
    await logIn(await newContext(), 'emma');
    await provider.changeKey();
    const context = await newContext();
    const page = await logIn(context, 'emma');
    // Within a minute after the last login the first answer has an unknown key.
    if (await page.isVisible('text=Not possible')) {
      await page.getByRole('link', { name: 'Log in again' }).click();
      await provider.goOn?.(page);
      await page.waitForURL(({ pathname }) => pathname === '/');
    }
    expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'emma' });
  });

  test('opens the same account after the provider has moved', async () => {
    await logIn(await newContext(), 'frida');
    const before = await accountOf('frida');
    const fromIssuer = provider.issuer;
    await provider.move();
    await connect();
    await admin.moveIdentities({ fromIssuer, toIssuer: provider.issuer });
    const context = await newContext();
    await logIn(context, 'frida');
    expect(await (await clientOf(context)).userInfo()).toMatchObject({ username: 'frida' });
    expect((await accountOf('frida'))?.accountId).toBe(before?.accountId);
  });
});
