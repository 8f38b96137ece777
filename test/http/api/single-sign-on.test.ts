/** Logins by a real provider of OpenID Connect. */
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import type { SignOnRules } from '../../../src/domain/access/sign-on-rules.ts';
import type { LoginProvider } from '../../../src/edge/http/access/login-provider.ts';
import { Browser, startProvider, type TestProvider, type Visit } from '../../fixtures/login-provider.ts';
import { startApi, startEdge, type BareApi, type TestApi } from './harness.ts';
import { atCallback, expectRefused, makeProviderOf, newPerson, PUBLIC, REDIRECT, rules } from './sign-on-fixture.ts';

let api: TestApi;
let edge: BareApi;
let provider: TestProvider;
let current: SignOnRules;
const providerOf = (given: TestProvider): LoginProvider => makeProviderOf(given).loginProvider;
beforeAll(async () => {
  api = await startApi();
  provider = await startProvider(REDIRECT);
  const { loginProvider: made } = makeProviderOf(provider);
  const loginProvider: LoginProvider = {
    ...made,
    get rules() {
      return current;
    },
  };
  edge = await startEdge(api.wired.control, { loginProvider });
});
const newBrowser = (): Browser => new Browser({ [PUBLIC]: edge.origin });
beforeEach(() => {
  current = rules;
});
afterAll(async () => {
  await edge.stop();
  await provider.stop();
  await api.stop();
});

const person = (claims?: Record<string, unknown>) => newPerson(provider, claims);

const logIn = (browser = newBrowser(), query = ''): Promise<Visit> =>
  browser.open(`${edge.origin}/api/user/oidc/login${query}`, ({ pathname }) => pathname === '/');

const clientOf = (browser: Browser) =>
  makeClient({
    baseUrl: edge.baseUrl,
    credential: { kind: 'token', token: browser.cookie(edge.origin, 'AccessToken') ?? '' },
  });

const accounts = async (search: string) =>
  (await api.wired.control.accounts.list({ search }, { currentPage: 1, pageSize: 10 })).accounts;

test('makes an account at the first login, opens it at the next, and a logout ends the login', async () => {
  const { name, email } = person();
  const browser = newBrowser();
  expect(await logIn(browser)).toMatchObject({ status: 303, url: new URL(`${edge.origin}/`) });
  const client = clientOf(browser);
  const user = await client.userInfo();
  expect(user).toMatchObject({ username: name, email, group: ['user'] });
  expect((await client.balance()).balance).toBeGreaterThan(0);
  expect((await api.wired.audited()).at(-1)).toMatchObject({ route: 'signOn', outcome: 'ok', accountId: user.userId });
  expect(browser.cookies(edge.origin)).toEqual(['AccessToken', 'berth_oidc_hint']);
  const again = newBrowser();
  await logIn(again);
  expect((await clientOf(again).userInfo()).userId).toBe(user.userId);
  await client.logout();
  await expect(client.userInfo()).rejects.toMatchObject({ code: 'not_logged_in' });
  await clientOf(again).userInfo();
});

test('opens no account of a password, unless the operator links verified emails', async () => {
  const { email, name } = person();
  const local = await api.admin.client.createUser({
    username: `local-${name}`,
    email,
    password: 'four words not common',
  });
  expectRefused(await logIn(), 409, /belongs to another account here, which your login provider does not open/);
  current = { ...rules, linksByEmail: true };
  const browser = newBrowser();
  await logIn(browser);
  expect((await clientOf(browser).userInfo()).userId).toBe(local.userId);
});

test('opens no account by an email that the provider has not verified', async () => {
  current = { ...rules, emailDomains: [], linksByEmail: true };
  for (const email_verified of [false, undefined, 'false']) {
    const { email, name } = person({ email_verified });
    await api.admin.client.createUser({ username: `local-${name}`, email, password: 'four words not common' });
    const browser = newBrowser();
    await logIn(browser);
    expect(await clientOf(browser).userInfo()).toMatchObject({ username: name, email: '' });
  }
});

test('says once that the name is taken, and by which the account goes', async () => {
  const { email } = person({ preferred_username: 'admin' });
  const browser = newBrowser();
  const shown = await logIn(browser, '?to=/instances');
  expect(shown).toMatchObject({ status: 200, text: expect.stringContaining('Your account here is named admin-2,') });
  expect(shown.text).toContain('<a href="/login?to=%2Finstances&#38;host=">Continue</a>');
  expect(await clientOf(browser).userInfo()).toMatchObject({ username: 'admin-2', email });
  expect((await logIn()).status).toBe(303);
});

test.each<[string, Partial<SignOnRules>, Record<string, unknown>, RegExp]>([
  ['of another domain', {}, { email: 'x@example.com' }, /is not in a domain that may log in here/],
  ['of a domain below', {}, { email: 'x@sub.example.org' }, /is not in a domain/],
  ['with an unverified email', {}, { email_verified: false }, /says that your email address .* is not verified/],
  ['without an email', {}, { email: undefined }, /sends no email address of yours/],
  ['whose email nobody verified', {}, { email_verified: undefined }, /does not say whether your email address/],
  ['of no group', { groups: ['staff'] }, { groups: ['guests'] }, /none of your groups/],
])('refuses a person %s, and makes no account', async (_, more, claims, why) => {
  current = { ...rules, ...more };
  const { name } = person(claims);
  edge.logged.length = 0;
  const visit = await logIn();
  expectRefused(visit, 403, why);
  expect(visit.text).toContain('prompt=select_account">Log in with another account</a>');
  expect(await accounts(name)).toEqual([]);
  const [line] = edge.logged;
  expect(line?.text).toMatch(/^a login by the provider was refused: /);
  expect(line?.facts).toMatchObject({ claim: expect.any(String), setting: expect.stringMatching(/^BERTH_OIDC_/) });
  expect(line?.facts).toHaveProperty('value');
});

const otherAccountOf = ({ text }: Visit): string => {
  const [, link = ''] = /<a href="([^"]+)">Log in with another account<\/a>/.exec(text) ?? [];
  return edge.origin + link.replaceAll('&#38;', '&');
};

test('lets a person log in with another account after a refusal', async () => {
  const browser = newBrowser();
  person({ email: 'x@example.com' });
  const refused = await logIn(browser, '?to=/instances');
  const { name } = person();
  const back = await browser.open(otherAccountOf(refused), ({ pathname }) => pathname === '/instances');
  expect([back.status, back.url.origin]).toEqual([303, edge.origin]);
  expect((await clientOf(browser).userInfo()).username).toBe(name);
  const outcomes = (await api.wired.audited()).filter(({ route }) => route === 'signOn').map(({ outcome }) => outcome);
  expect(outcomes.slice(-2)).toEqual(['forbidden', 'ok']);
});

test('keeps the role of a person whose groups are missing, and logs that', async () => {
  current = { ...rules, rolesByGroup: new Map([['bosses', 'admin' as const]]) };
  const { sub, name } = person({ groups: ['bosses'] });
  await logIn();
  edge.logged.length = 0;
  provider.people.set(sub, { ...provider.people.get(sub), groups: undefined });
  await logIn();
  expect(await accounts(name)).toMatchObject([{ role: 'admin' }]);
  expect(edge.logged.map(({ text }) => text)).toEqual([
    'a login by the provider: the provider sends no claim "groups", so the login changes no role',
  ]);
});

test('gives the highest role of the groups at each login', async () => {
  const rolesByGroup = new Map([
    ['ops', 'operator' as const],
    ['bosses', 'admin' as const],
  ]);
  current = { ...rules, rolesByGroup };
  const { sub, name } = person();
  for (const [groups, role] of [
    [['bosses', 'ops'], 'admin'],
    [['ops', 'x'], 'operator'],
    [[], 'user'],
  ]) {
    provider.people.set(sub, { ...provider.people.get(sub), groups });
    await logIn();
    expect(await accounts(name)).toMatchObject([{ role }]);
  }
});

test('refuses a disabled account', async () => {
  const { name } = person();
  await logIn();
  const [account] = await accounts(name);
  const { token } = api.admin;
  const admin = await api.wired.control.access.authenticate({ kind: 'token', token });
  await api.wired.control.accounts.disable(admin, { accountId: account?.accountId ?? '', reason: 'left' }, null);
  expectRefused(await logIn(), 403, /disabled \(left\)\. Ask an administrator/);
});

test('finishes a login in the browser that began it, once, and with its own state', async () => {
  person();
  const browser = newBrowser();
  const { url } = await browser.open(`${edge.origin}/api/user/oidc/login`, atCallback);
  expectRefused(await newBrowser().open(url.href), 401, /no login is under way in this browser/);
  const other = newBrowser();
  await other.open(`${edge.origin}/api/user/oidc/login`, atCallback);
  expectRefused(await other.open(url.href), 401, /no login is under way in this browser/);
  const isHome = ({ pathname }: URL): boolean => pathname === '/';
  const { status, url: home } = await browser.open(url.href, isHome);
  expect([status, home.pathname]).toEqual([303, '/']);
  const denied = newBrowser();
  const { url: begun } = await denied.open(`${edge.origin}/api/user/oidc/login`, atCallback);
  const { origin } = new URL(provider.issuer);
  const refusal = new URLSearchParams({
    error: 'access_denied',
    state: begun.searchParams.get('state') ?? '',
    iss: origin,
  });
  const visit = await denied.open(`${edge.origin}${begun.pathname}?${refusal}`);
  expectRefused(visit, 401, /refused the login \(access_denied\)/);
  expect(otherAccountOf(visit)).toContain('prompt=select_account');
});

test('finishes several logins of a browser, and leads on from a callback that comes too late', async () => {
  person();
  const browser = newBrowser();
  const begin = async (to: string): Promise<URL> =>
    (await browser.open(`${edge.origin}/api/user/oidc/login?${new URLSearchParams({ to })}`, atCallback)).url;
  const [first, second] = [await begin('/instances'), await begin('/volumes')];
  expect(browser.cookies(edge.origin)).toHaveLength(2);
  const endOf = async (callback: URL): Promise<string> => {
    const isView = ({ pathname }: URL): boolean => !pathname.endsWith('/callback') && pathname !== '/login';
    return (await browser.open(callback.href, isView)).url.pathname;
  };
  expect([await endOf(first), await endOf(second)]).toEqual(['/instances', '/volumes']);
  // Reloaded, the callback has no login under way, but its browser is logged in.
  expect(await endOf(second)).toBe('/');
  const { route, outcome } = (await api.wired.audited()).at(-1) ?? {};
  expect({ route, outcome }).toEqual({ route: 'signOn', outcome: 'not_logged_in' });
});

test('keeps few logins under way in a browser, the latest', async () => {
  const browser = newBrowser();
  const to = `/instances?${'x'.repeat(1_900)}`;
  const begin = () =>
    browser.open(
      `${edge.origin}/api/user/oidc/login?${new URLSearchParams({ to })}`,
      ({ origin }) => origin !== edge.origin,
    );
  for (let count = 0; count < 6; count += 1) await begin();
  const names = browser.cookies(edge.origin);
  expect(names.length).toBeLessThanOrEqual(3);
  const { url } = await begin();
  expect(browser.cookies(edge.origin).at(-1)).toBe(`berth_oidc_${url.searchParams.get('state')}`);
});

test('finishes a login once, also with a provider that accepts a code twice, and after a failure', async () => {
  person();
  const made = providerOf(provider);
  const answers = new Map<string, ReturnType<LoginProvider['finish']>>();
  let isBroken = true;
  const lenient: LoginProvider = {
    ...made,
    async finish(query, pending) {
      if (isBroken) throw new Refusal('unavailable', 'the provider is away');
      const answer = answers.get(query) ?? made.finish(query, pending);
      answers.set(query, answer);
      return answer;
    },
  };
  const fresh = await startEdge(api.wired.control, { loginProvider: lenient });
  onTestFinished(() => fresh.stop());
  const browser = new Browser({ [PUBLIC]: fresh.origin });
  const { url } = await browser.open(`${fresh.origin}/api/user/oidc/login`, ({ pathname }) =>
    pathname.endsWith('/callback'),
  );
  const [name = ''] = browser.cookies(fresh.origin);
  const cookie = `${name}=${browser.cookie(fresh.origin, name)}`;
  const visit = async (): Promise<number> => (await fetch(url, { redirect: 'manual', headers: { cookie } })).status;
  expect(await visit()).toBe(503);
  isBroken = false;
  expect((await Promise.all([visit(), visit(), visit()])).toSorted()).toEqual([303, 401, 401]);
  expect(await visit()).toBe(401);
});

test('refuses an ID token whose signature is not of a key of the provider', async () => {
  const { name } = person();
  const fresh = await startEdge(api.wired.control, { loginProvider: providerOf(provider) });
  onTestFinished(() => fresh.stop());
  onTestFinished(() => {
    provider.showsAnotherKey = false;
  });
  provider.showsAnotherKey = true;
  const login = await new Browser({ [PUBLIC]: fresh.origin }).open(`${fresh.origin}/api/user/oidc/login`);
  expectRefused(login, 503, /try again in a moment/);
  expect(await accounts(name)).toEqual([]);
});

test('takes an email and its verification from one source, and groups and name from the ID token first', async () => {
  current = { ...rules, emailDomains: [], linksByEmail: true, rolesByGroup: new Map([['bosses', 'admin' as const]]) };
  const victim = { username: 'victim', email: 'victim@example.org' };
  await api.admin.client.createUser({ ...victim, password: 'four words not common' });
  const mallory = person({ groups: ['bosses'] });
  provider.inIdToken.set(mallory.sub, { email: victim.email, groups: ['guests'] });
  const browser = newBrowser();
  await logIn(browser);
  const { username, email } = await clientOf(browser).userInfo();
  expect({ username, email }).toEqual({ username: mallory.name, email: mallory.email });
  expect(await accounts(mallory.name)).toMatchObject([{ role: 'user' }]);
});

test('says that the provider is away, and works once it is back', async () => {
  person();
  const fresh = await startEdge(api.wired.control, { loginProvider: providerOf(provider) });
  try {
    provider.isUp = false;
    const away = await newBrowser().open(`${fresh.origin}/api/user/oidc/login`);
    expectRefused(away, 503, /does not answer: try again in a moment, or log in with a password/);
    expect(away.headers.get('retry-after')).toBe('10');
    provider.isUp = true;
    const atProvider = ({ origin }: URL): boolean => origin === provider.issuer;
    const { url } = await newBrowser().open(`${fresh.origin}/api/user/oidc/login`, atProvider);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      code_challenge_method: 'S256',
      state: expect.stringMatching(/^.{20,}$/),
      nonce: expect.stringMatching(/^.{20,}$/),
    });
  } finally {
    provider.isUp = true;
    await fresh.stop();
  }
});

test('is linked from the login page, and leads back to it with the address asked for', async () => {
  person();
  const to = '/notebook/notebook-3f0c2b6e-0a53-4c43-9a0e-5d1f6a7c2b91/lab?a=b&c';
  const query = `?${new URLSearchParams({ to, host: '' })}`;
  const shown = await newBrowser().open(`${edge.origin}/login${query}`);
  const [, link = ''] = /<a href="([^"]+)">Log in with 127\.0\.0\.1:\d+</.exec(shown.text) ?? [];
  const browser = newBrowser();
  const back = await browser.open(`${edge.origin}${link.replaceAll('&#38;', '&')}`);
  expect(back).toMatchObject({ status: 200, text: expect.stringContaining('Continue as person-') });
  expect(back.url.searchParams.get('to')).toBe(to);
});

test('is linked by the name that the operator gives the provider', async () => {
  const { loginProvider } = makeProviderOf(provider, { displayName: 'your <company> account' });
  const named = await startEdge(api.wired.control, { loginProvider });
  onTestFinished(() => named.stop());
  expect((await newBrowser().open(`${named.origin}/login`)).text).toContain(
    '>Log in with your &#60;company&#62; account</a>',
  );
});

test.each(['/instances?status=Running', '/operator/fleet'])('leads back to the view %s of the console', async (to) => {
  person();
  const shown = await newBrowser().open(`${edge.origin}/login?${new URLSearchParams({ to })}`);
  const [, link = ''] = /<a href="([^"]+)">Log in with 127\.0\.0\.1:\d+</.exec(shown.text) ?? [];
  const isView = ({ pathname, search }: URL): boolean => pathname + search === to;
  const { url } = await newBrowser().open(`${edge.origin}${link.replaceAll('&#38;', '&')}`, isView);
  expect(url.href).toBe(edge.origin + to);
});

test.each(['//evil.test', '/\\evil.test', 'https://evil.test', '/instances\r\nx: y'])('leads not to %j', async (to) => {
  person();
  const back = await newBrowser().open(`${edge.origin}/api/user/oidc/login?${new URLSearchParams({ to })}`);
  expect([back.url.origin, back.status]).toEqual([edge.origin, 400]);
});

test('says in Chinese what a refusal means, before its reason', async () => {
  const headers = { 'accept-language': 'zh-CN', accept: 'text/html' };
  const { text } = await edge.send('/api/user/oidc/callback?state=x&code=y', { headers });
  expect(text).toMatch(/<p>登录未完成，[^<]*原因：<\/p>\n<p>No login is under way in this browser/);
});

test('without a provider, names the setting, and shows no link', async () => {
  expectRefused(
    await newBrowser().open(`${api.origin}/api/user/oidc/login`),
    404,
    /the operator sets BERTH_OIDC_ISSUER/,
  );
  expect((await api.send('/api/user/oidc/callback', { method: 'POST' })).headers['allow']).toBe('GET');
});
