/** Logouts that reach the login provider, and those that it tells Berth about. */
import { randomUUID } from 'node:crypto';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { makeClient, type Client } from '../../../src/contract/client.ts';
import type { LoginProviderSettings } from '../../../src/edge/http/access/login-provider.ts';
import { Browser, CLIENT, formOf, startProvider, type TestProvider } from '../../fixtures/login-provider.ts';
import { startApi, startEdge, type BareApi, type Reply, type TestApi } from './harness.ts';
import { makeProviderOf, newPerson, PUBLIC, REDIRECT } from './sign-on-fixture.ts';

let api: TestApi;
let provider: TestProvider;
let edge: BareApi;
beforeAll(async () => {
  api = await startApi();
  provider = await startProvider(REDIRECT);
  edge = await startEdgeWith();
});
afterAll(async () => {
  await edge.stop();
  await provider.stop();
  await api.stop();
});

const startEdgeWith = (more: Partial<LoginProviderSettings> = {}): Promise<BareApi> =>
  startEdge(api.wired.control, { loginProvider: makeProviderOf(provider, more).loginProvider });

const clientOf = (browser: Browser, { origin, baseUrl }: BareApi): Client =>
  makeClient({ baseUrl, credential: { kind: 'token', token: browser.cookie(origin, 'AccessToken') ?? '' } });

async function logIn(at = edge): Promise<{ browser: Browser; client: Client }> {
  const browser = new Browser({ [PUBLIC]: at.origin });
  await browser.open(`${at.origin}/api/user/oidc/login`, ({ pathname }) => pathname === '/');
  return { browser, client: clientOf(browser, at) };
}

const HINT = 'berth_oidc_hint';

test('ends the login at the provider after that at Berth, which leads back to the login page', async () => {
  newPerson(provider);
  const { browser, client } = await logIn();
  const leave = async () => {
    const stopAt = ({ origin, pathname }: URL): boolean => origin === provider.issuer || pathname === '/login';
    return (await browser.open(`${edge.origin}/api/user/oidc/logout`, stopAt)).url;
  };
  const hint = browser.cookie(edge.origin, HINT);
  await client.logout();
  const url = await leave();
  expect(url.origin + url.pathname).toBe(`${provider.issuer}/session/end`);
  expect(Object.fromEntries(url.searchParams)).toEqual({
    id_token_hint: hint,
    post_logout_redirect_uri: REDIRECT,
    client_id: CLIENT.client_id,
  });
  // The provider asks for the logout, so it took client, hint and way back.
  expect(await browser.open(url.href)).toMatchObject({ status: 200, text: expect.stringContaining('<form') });
  const back = await browser.open(`${edge.origin}/api/user/oidc/callback`);
  expect([back.url.pathname, back.status]).toEqual(['/login', 200]);
  expect((await leave()).pathname).toBe('/login');
});

test.each<[string, (browser: Browser, client: Client) => Promise<unknown>, Record<string, string>]>([
  ['while the login goes on', async () => {}, {}],
  ['for a page of another site', (_, client) => client.logout(), { 'sec-fetch-site': 'cross-site' }],
])('leaves the login at the provider %s', async (_, before, headers) => {
  newPerson(provider);
  const { browser, client } = await logIn();
  await before(browser, client);
  const cookie = [HINT, 'AccessToken'].map((name) => `${name}=${browser.cookie(edge.origin, name)}`).join('; ');
  const left = await edge.send('/api/user/oidc/logout', { headers: { cookie, ...headers } });
  expect([left.status, left.headers.location]).toEqual([303, '/login']);
});

test('leaves the login at the provider where the operator wants that', async () => {
  const kept = await startEdgeWith({ endsAtProvider: false });
  onTestFinished(() => kept.stop());
  newPerson(provider);
  const { browser, client } = await logIn(kept);
  await client.logout();
  const isLogin = ({ pathname }: URL): boolean => pathname === '/login';
  expect((await browser.open(`${kept.origin}/api/user/oidc/logout`, isLogin)).url.origin).toBe(kept.origin);
});

const EVENTS = { 'http://schemas.openid.net/event/backchannel-logout': {} };
const nowS = (): number => Math.floor(Date.now() / 1_000);
const logoutClaims = (more: object): Record<string, unknown> => ({
  iss: provider.issuer,
  aud: CLIENT.client_id,
  iat: nowS(),
  exp: nowS() + 120,
  jti: randomUUID(),
  events: EVENTS,
  ...more,
});

const send = (token: string, type = 'application/x-www-form-urlencoded'): Promise<Reply> =>
  edge.send('/api/user/oidc/backchannel', {
    method: 'POST',
    headers: { 'content-type': type },
    body: String(new URLSearchParams({ logout_token: token })),
  });

const goesOn = (client: Client): Promise<boolean> =>
  client.userInfo().then(
    () => true,
    () => false,
  );

test('ends the logins of a session at the provider, and all of a subject, when the provider says so', async () => {
  const { sub } = newPerson(provider);
  const logInAs = async (sid: string): Promise<Client> => {
    provider.inIdToken.set(sub, { sid });
    return (await logIn()).client;
  };
  const [one, two] = [await logInAs('session-1'), await logInAs('session-2')];
  newPerson(provider);
  const other = (await logIn()).client;
  const ended = await send(await provider.sign(logoutClaims({ sub, sid: 'session-1' })));
  expect([ended.status, ended.headers['cache-control']]).toEqual([200, 'no-store']);
  expect(await Promise.all([one, two, other].map(goesOn))).toEqual([false, true, true]);
  const { userId } = await two.userInfo();
  expect((await api.wired.audited()).find(({ route }) => route === 'backchannelLogout')).toMatchObject({
    credential: 'signature',
    subjects: JSON.stringify([userId]),
  });
  expect((await send(await provider.sign(logoutClaims({ sub })))).status).toBe(200);
  expect(await Promise.all([two, other].map(goesOn))).toEqual([false, true]);
});

test('ends the login when the person logs out at the provider, by its own logout token', async () => {
  const served = { origin: '' };
  const notified = { origin: PUBLIC, servedAt: () => served.origin };
  const telling = await startProvider(REDIRECT, { notified });
  onTestFinished(() => telling.stop());
  const own = await startEdge(api.wired.control, { loginProvider: makeProviderOf(telling).loginProvider });
  onTestFinished(() => own.stop());
  served.origin = own.origin;
  const { sub } = newPerson(telling);
  const [here, elsewhere] = [await logIn(own), await logIn(own)];
  newPerson(telling);
  const other = await logIn(own);
  const hint = here.browser.cookie(own.origin, HINT) ?? '';
  expect(decodeJwt(hint)).toMatchObject({ sub, sid: expect.any(String) });
  const { text } = await here.browser.open(`${telling.issuer}/session/end`);
  const { action, fields } = formOf(text);
  fields.set('logout', 'yes');
  expect((await here.browser.open(action, () => false, fields)).url.pathname).toBe('/session/end/success');
  expect(await Promise.all([here, elsewhere, other].map(({ client }) => goesOn(client)))).toEqual([false, true, true]);
});

test.each([
  ['/api/user/oidc/backchannel', 'GET', 'POST'],
  ['/api/user/oidc/login', 'PUT', 'GET'],
  ['/api/user/oidc/logout', 'POST', 'GET'],
  ['/api/user/oidc/callback', 'POST', 'GET'],
])('names the methods of %s to a %s', async (at, method, allow) => {
  expect(await edge.send(at, { method })).toMatchObject({ status: 405, headers: { allow } });
});

const wrongTokens: [string, object, RegExp][] = [
  ['of another issuer', { iss: 'https://else.example' }, /^the logout token is not valid: .*"iss"/],
  ['for another client', { aud: 'other' }, /^the logout token is not valid: .*"aud"/],
  ['that is old', { iat: nowS() - 600 }, /^the logout token is not valid: .*"iat"/],
  ['that has expired', { exp: nowS() - 60 }, /^the logout token is not valid: .*"exp"/],
  ['without an ID', { jti: undefined }, /^the logout token is not valid: .*"jti"/],
  ['with a nonce, as ID tokens have', { nonce: 'n' }, /^the logout token is not valid: .*"nonce"/],
  ['without the event', { events: {} }, /"events" has no http/],
  ['of a subject that nobody has', { sub: 'a\u0000' }, /"sub" is not 1 to 255 characters/],
  ['of a session that is none', { sid: 7 }, /"sid" is not 1 to 255 characters/],
  ['of nobody', { sub: undefined }, /neither "sub" nor "sid"/],
];

test.each(wrongTokens)('refuses a logout token %s', async (_, more, why) => {
  const { sub } = newPerson(provider);
  const { client } = await logIn();
  const refused = await send(await provider.sign(logoutClaims({ sub, ...more })));
  expect(refused).toMatchObject({ status: 400, json: { message: expect.stringMatching(why) } });
  expect(await goesOn(client)).toBe(true);
});

test('refuses a logout token the second time, of another key, without a signature, and another form', async () => {
  const { sub } = newPerson(provider);
  const token = await provider.sign(logoutClaims({ sub }));
  expect((await send(token)).status).toBe(200);
  const { client } = await logIn();
  expect((await send(token)).text).toContain('it was used before');
  const [head = '', body = '', signature = ''] = (await provider.sign(logoutClaims({ sub }))).split('.');
  expect((await send([head, body, signature.replace(/^..../, 'AAAA')].join('.'))).status).toBe(400);
  const unsigned = Buffer.from('{"alg":"none"}').toString('base64url');
  expect((await send([unsigned, body, ''].join('.'))).status).toBe(400);
  expect((await send([head, body, signature].join('.'), 'application/json')).status).toBe(400);
  expect(await goesOn(client)).toBe(true);
});

test('reads the keys for logout tokens again with the metadata', async () => {
  const { loginProvider } = makeProviderOf(provider);
  const read = async () => loginProvider.readLogout(await provider.sign(logoutClaims({ sub: 'a' })));
  provider.showsAnotherKey = true;
  await expect(read().finally(() => (provider.showsAnotherKey = false))).rejects.toThrow(
    /signature verification failed/,
  );
  const later = performance.now() + 61_000;
  const clock = vi.spyOn(performance, 'now').mockReturnValue(later);
  onTestFinished(() => clock.mockRestore());
  expect(await read()).toEqual({ subject: 'a', sid: null });
});

test('keeps the cookies of logins below the path of the API, whatever letters a state has', async () => {
  const { loginProvider } = makeProviderOf(provider);
  const below = await startEdge(api.wired.control, { loginProvider, prefix: '/berth' });
  onTestFinished(() => below.stop());
  // Every second state has a dash.
  for (let count = 0; count < 20; count += 1) {
    const [cookie = ''] = (await below.send('/berth/api/user/oidc/login')).headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^berth_oidc_[\w-]{43}=[^;]+; Path=\/berth\/api\/user\/oidc; /);
  }
});
