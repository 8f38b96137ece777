/** Logins by differently configured providers of OpenID Connect, and reports of their faults. */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import type { LoginProviderSettings } from '../../../src/edge/http/access/login-provider.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { Browser, startProvider, type TestProvider, type Visit } from '../../fixtures/login-provider.ts';
import { makeTlsAuthority } from '../../fixtures/tls-authority.ts';
import { startApi, startEdge, type TestApi } from './harness.ts';
import { expectRefused, makeProviderOf, newPerson, PUBLIC, REDIRECT } from './sign-on-fixture.ts';

let api: TestApi;
let provider: TestProvider;
beforeAll(async () => {
  api = await startApi();
  provider = await startProvider(REDIRECT);
});
afterAll(async () => {
  await provider.stop();
  await api.stop();
});

async function setUp(given: Pick<TestProvider, 'issuer'>, more: Partial<LoginProviderSettings> = {}) {
  const { loginProvider, logged } = makeProviderOf(given, more);
  const edge = await startEdge(api.wired.control, { loginProvider });
  onTestFinished(() => edge.stop());
  const isHome = ({ pathname }: URL): boolean => pathname === '/';
  const logIn = (): Promise<Visit> =>
    new Browser({ [PUBLIC]: edge.origin }).open(`${edge.origin}/api/user/oidc/login`, isHome);
  return { loginProvider, logged, logIn, edge };
}

/** Answers of `path` while the test runs. */
function replace(path: string, answer: { status?: number; type?: string; body?: string }): void {
  provider.replaced.set(path, answer);
  onTestFinished(() => void provider.replaced.delete(path));
}

const DISCOVERY = '/.well-known/openid-configuration';

test.each(['client_secret_basic', 'client_secret_post'] as const)(
  'authenticates by %s where the metadata list it alone',
  async (tokenAuth) => {
    const strict = await startProvider(REDIRECT, { tokenAuth });
    onTestFinished(() => strict.stop());
    newPerson(strict);
    expect((await (await setUp(strict)).logIn()).status).toBe(303);
  },
);

test('authenticates by Basic where the metadata list nothing, and by the setting whatever they list', async () => {
  const { token_endpoint_auth_methods_supported: listed, ...metadata } = await metadataOf();
  expect(listed).toEqual(['client_secret_basic']);
  newPerson(provider);
  replace(DISCOVERY, { body: JSON.stringify(metadata) });
  expect((await (await setUp(provider)).logIn()).status).toBe(303);
  const wrong = { ...metadata, token_endpoint_auth_methods_supported: ['client_secret_post'] };
  replace(DISCOVERY, { body: JSON.stringify(wrong) });
  expect((await (await setUp(provider)).logIn()).status).toBe(503);
  expect((await (await setUp(provider, { tokenAuth: 'client_secret_basic' })).logIn()).status).toBe(303);
});

const metadataOf = async (): Promise<Record<string, unknown>> =>
  JSON.parse(await (await fetch(provider.issuer + DISCOVERY)).text());

test.each([
  [undefined, 'login'],
  [['none', 'select_account', 'login'], 'select_account'],
  [['none', 'login'], 'login'],
  [['none'], null],
])('asks a provider that lists the prompts %j for another account by the prompt %j', async (listed, prompt) => {
  replace(DISCOVERY, { body: JSON.stringify({ ...(await metadataOf()), prompt_values_supported: listed }) });
  const { edge } = await setUp(provider);
  const isAway = ({ origin }: URL): boolean => origin === provider.issuer;
  const promptOf = async (query: string): Promise<string | null> =>
    (await new Browser().open(`${edge.origin}/api/user/oidc/login${query}`, isAway)).url.searchParams.get('prompt');
  expect(await promptOf('?prompt=select_account')).toBe(prompt);
  expect(await promptOf('')).toBeNull();
  expect(await promptOf('?prompt=none')).toBeNull();
});

const OPERATORS = /cannot be used, because its set-up needs a correction: tell the operator/;

test.each<[string, string, Partial<LoginProviderSettings>, () => unknown]>([
  ['a wrong secret', '/token answers 401): check BERTH_OIDC_CLIENT_ID', { clientSecret: 'no' }, () => {}],
  [
    'an issuer that the provider does not call itself',
    'the provider names itself "https://else.example/", not',
    {},
    async () =>
      replace(DISCOVERY, { body: JSON.stringify({ ...(await metadataOf()), issuer: 'https://else.example/' }) }),
  ],
  [
    'an address without a provider',
    'answers 404: check BERTH_OIDC_ISSUER',
    {},
    () => replace(DISCOVERY, { status: 404 }),
  ],
  [
    'a page in place of metadata',
    'answers 200 with text/html, not JSON: check BERTH_OIDC_ISSUER',
    {},
    () => replace(DISCOVERY, { type: 'text/html', body: '<h1>Welcome</h1>' }),
  ],
  [
    'a token endpoint that takes certificates alone',
    'the token endpoint takes tls_client_auth, and Berth client_secret_basic',
    {},
    async () =>
      replace(DISCOVERY, {
        body: JSON.stringify({ ...(await metadataOf()), token_endpoint_auth_methods_supported: ['tls_client_auth'] }),
      }),
  ],
  [
    'a clock ahead',
    '"nbf" of the ID token is',
    {},
    () => provider.inIdToken.set(provider.visitor.sub, { nbf: Math.floor(Date.now() / 1_000) + 90 }),
  ],
  ['a user info that refuses', '/me answers 403', {}, () => replace('/me', { status: 403 })],
  [
    'a signature by an algorithm that the metadata do not list',
    'is not valid (unexpected JWT "alg" header parameter)',
    {},
    async () =>
      replace(DISCOVERY, {
        body: JSON.stringify({ ...(await metadataOf()), id_token_signing_alg_values_supported: ['ES256'] }),
      }),
  ],
  [
    'a token endpoint that sends no ID token',
    'is not valid ("response" body "id_token" property must be a string)',
    {},
    () => replace('/token', { body: '{"access_token":"a","token_type":"Bearer"}' }),
  ],
  [
    'an ID token that is none',
    'is not valid (failed to parse JWT Header',
    {},
    () => replace('/token', { body: '{"access_token":"a","id_token":"a.b.c","token_type":"Bearer"}' }),
  ],
  [
    'a user info that is no token as it says',
    'is not valid (Invalid JWT)',
    {},
    () => replace('/me', { type: 'application/jwt', body: 'x' }),
  ],
  [
    'metadata without an address of the login page',
    'have "/auth" as "authorization_endpoint", which is no address',
    {},
    async () =>
      replace(DISCOVERY, { body: JSON.stringify({ ...(await metadataOf()), authorization_endpoint: '/auth' }) }),
  ],
])('tells the operator of %s, and the person that it is not theirs', async (_, why, settings, spoil) => {
  newPerson(provider);
  const { loginProvider, logged, logIn } = await setUp(provider, settings);
  await spoil();
  const visit = await logIn();
  expectRefused(visit, 503, OPERATORS);
  expect(visit.text).toContain('>Log in again</a>');
  expect(loginProvider.trouble()).toContain(why);
  expect(logged).toEqual([expect.stringContaining(why)]);
});

test('tells the operator of a certificate that nobody trusts', async () => {
  const authority = await makeTlsAuthority();
  onTestFinished(() => authority.stop());
  const { certFile, keyFile } = authority.server;
  const tls = { cert: await readFile(certFile, 'utf8'), key: await readFile(keyFile, 'utf8') };
  const secure = await startProvider(REDIRECT, { tls });
  onTestFinished(() => secure.stop());
  const { loginProvider, logIn } = await setUp(secure);
  expectRefused(await logIn(), 503, OPERATORS);
  expect(loginProvider.trouble()).toMatch(/certificate of .* is not accepted .*set NODE_EXTRA_CA_CERTS/);
});

test('asks the provider at the start, says that it is away, and forgets that once it is back', async () => {
  const issuer = `http://127.0.0.1:${await freePort()}`;
  const { loginProvider, logged, logIn } = await setUp({ issuer });
  await loginProvider.check();
  expect(loginProvider.trouble()).toMatch(/does not answer \(connect ECONNREFUSED/);
  await loginProvider.check();
  expect(logged).toHaveLength(1);
  expectRefused(await logIn(), 503, /does not answer: try again in a moment/);

  provider.isUp = false;
  const other = await setUp(provider);
  await other.loginProvider.check();
  expect(other.loginProvider.trouble()).toContain('answers 502');
  provider.isUp = true;
  await other.loginProvider.check();
  expect(other.loginProvider.trouble()).toBeNull();
});

test('forgets a wrong secret with the next login', async () => {
  const { loginProvider, logIn } = await setUp(provider);
  newPerson(provider);
  replace('/token', { status: 401, body: JSON.stringify({ error: 'invalid_client' }) });
  expect((await logIn()).status).toBe(503);
  expect(loginProvider.trouble()).toContain('invalid_client');
  provider.replaced.clear();
  expect((await logIn()).status).toBe(303);
  expect(loginProvider.trouble()).toBeNull();
});

test.each<[string, () => void]>([
  ['an unknown one', () => replace('/jwks', { body: '{"keys":[]}' })],
  ['another one with the same ID', () => void (provider.showsAnotherKey = true)],
])('reads the keys of the provider again after a token of %s', async (_, spoil) => {
  const { loginProvider, logIn } = await setUp(provider);
  newPerson(provider);
  spoil();
  onTestFinished(() => void (provider.showsAnotherKey = false));
  expectRefused(await logIn(), 503, /does not answer: try again in a moment/);
  expect(loginProvider.trouble()).toContain('verifies the ID token');
  provider.replaced.clear();
  provider.showsAnotherKey = false;
  expect((await logIn()).status).toBe(303);
});

test('reads the metadata again after a failure, and after a while', async () => {
  const { loginProvider, logIn, edge } = await setUp(provider);
  newPerson(provider);
  const metadata = await metadataOf();
  const changed = { ...metadata, token_endpoint: `${provider.issuer}/moved` };
  replace('/moved', { status: 404 });
  replace(DISCOVERY, { body: JSON.stringify(changed) });
  expectRefused(await logIn(), 503, OPERATORS);
  expect(loginProvider.trouble()).toContain('/moved answers 404');
  provider.replaced.delete(DISCOVERY);
  expect((await logIn()).status).toBe(303);

  replace(DISCOVERY, { body: JSON.stringify({ ...metadata, authorization_endpoint: `${provider.issuer}/new` }) });
  const isAway = ({ origin }: URL): boolean => origin === provider.issuer;
  const asked = async (): Promise<string> =>
    (await new Browser().open(`${edge.origin}/api/user/oidc/login`, isAway)).url.pathname;
  expect(await asked()).toBe('/auth');
  vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 61_000);
  onTestFinished(() => void vi.restoreAllMocks());
  expect(await asked()).toBe('/new');
});

test('calls too many requests an outage, and lets people log in where the logout has no address', async () => {
  const metadata = await metadataOf();
  replace(DISCOVERY, { body: JSON.stringify({ ...metadata, end_session_endpoint: '/session/end' }) });
  const { loginProvider, logged, logIn } = await setUp(provider);
  newPerson(provider);
  await loginProvider.check();
  expect(logged).toEqual([expect.stringContaining('"/session/end" as "end_session_endpoint", which is no address')]);
  expect(await loginProvider.logoutUrl(null)).toBeNull();
  expect((await logIn()).status).toBe(303);
  replace('/token', { status: 429, body: JSON.stringify({ error: 'slow_down' }) });
  expectRefused(await logIn(), 503, /does not answer: try again in a moment/);
});

test.each<[string, number, RegExp]>([
  ['iss=https://else.example&code=x', 503, OPERATORS],
  ['code=x&code=y', 401, /is not valid: log in again/],
  ['token=x', 401, /is not valid: log in again/],
  ['error=invalid_scope', 503, OPERATORS],
])('shows no callback on the health page that anybody can write: %s', async (query, status, why) => {
  const { loginProvider, logged, edge } = await setUp(provider);
  const browser = new Browser({ [PUBLIC]: edge.origin });
  const isAway = ({ origin }: URL): boolean => origin === provider.issuer;
  const { url } = await browser.open(`${edge.origin}/api/user/oidc/login`, isAway);
  const iss = query.includes('iss=') ? '' : `&iss=${provider.issuer}`;
  const back = `${edge.origin}/api/user/oidc/callback?state=${url.searchParams.get('state')}${iss}&${query}`;
  expectRefused(await browser.open(back), status, why);
  expect(logged).toHaveLength(1);
  expect(loginProvider.trouble()).toBeNull();
});

test('blames no set-up for a code that a person made up', async () => {
  const { loginProvider, logIn } = await setUp(provider);
  newPerson(provider);
  replace('/token', { status: 400, body: JSON.stringify({ error: 'invalid_grant' }) });
  expectRefused(await logIn(), 401, /is not valid: log in again/);
  expect(loginProvider.trouble()).toBeNull();
});

test('asks for the user info only for claims that the ID token lacks', async () => {
  const { logIn } = await setUp(provider);
  const { sub, name, email } = newPerson(provider);
  provider.inIdToken.set(sub, { preferred_username: name, email, email_verified: true });
  replace('/me', { status: 500 });
  expect((await logIn()).status).toBe(303);
  provider.inIdToken.set(sub, { preferred_username: name, email });
  expectRefused(await logIn(), 503, /does not answer: try again/);
});
