/** The login page of the console and of visitors whose session expired, and attacks on it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ACCESS_COOKIE } from '../../../src/contract/routes.ts';
import { GATEWAY_ORIGIN, PORT_DOMAIN } from './control-fixture.ts';
import { launchRequest, startApi, type Account, type Reply, type TestApi } from './harness.ts';

let api: TestApi;
let alice: Account;
let instanceId: string;

beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
  ({ instanceId } = await alice.client.launch(launchRequest()));
});
afterAll(() => api.stop());

const pageAt = (to: string, headers: Record<string, string> = {}, host?: string): Promise<Reply> =>
  api.send(`/login?to=${encodeURIComponent(to)}${host === undefined ? '' : `&host=${encodeURIComponent(host)}`}`, {
    headers,
  });

/** Posts the form as a browser on this page does. */
const submit = (fields: Record<string, string>, headers: Record<string, string> = {}): Promise<Reply> =>
  api.send('/login', {
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin: api.origin, ...headers },
  });

const credentials = (): { username: string; password: string } => ({
  username: alice.username,
  password: alice.password,
});
const cookieOf = ({ token }: Account): { cookie: string } => ({ cookie: `${ACCESS_COOKIE}=${token}` });
const linkIn = ({ text }: Reply): URL => {
  const [, link = ''] = /http-equiv="refresh" content="0;url=([^"]+)"/.exec(text) ?? [];
  return new URL(link.replaceAll('&#38;', '&'));
};
const opened = ({ origin, pathname, searchParams }: URL): unknown[] => [origin, pathname, searchParams.get('to')];

test('shows a form without a login, and leads back to the address asked for after it', async () => {
  const to = `/notebook/${instanceId}/lab/tree/a%20b?x=1&y=%2F`;
  const shown = await pageAt(to);
  expect(shown).toMatchObject({ status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } });
  expect(shown.text).toContain('name="password" type="password"');
  const answered = await submit({ to, host: '', ...credentials() });
  expect(answered.status).toBe(200);
  expect(answered.headers['set-cookie']?.[0]).toMatch(/^AccessToken=.*; HttpOnly; SameSite=Lax$/);
  const link = linkIn(answered);
  expect(opened(link)).toEqual([GATEWAY_ORIGIN, '/open', to]);
  expect(link.searchParams.get('key')).toMatch(/^[\w-]{20,}$/);
});

test('needs no password of a visitor who is logged in, and lets another account log in', async () => {
  const to = `/forward/${instanceId}/8000/a?b`;
  const shown = await pageAt(to, cookieOf(alice));
  expect(shown.text).toContain(`Continue as ${alice.username}`);
  expect(shown.text).toContain('Or log in with another account');
  expect(opened(linkIn(await submit({ to, host: '' }, cookieOf(alice))))).toEqual([GATEWAY_ORIGIN, '/open', to]);
  // A header is not the visitor's login.
  expect((await pageAt(to, { authorization: `Bearer ${alice.token}` })).text).not.toContain('Continue as');
});

test("leads back to a port's own host", async () => {
  const host = `8000-${instanceId}`;
  const answered = await submit({ to: '//x?y', host }, cookieOf(alice));
  expect(opened(linkIn(answered))).toEqual([`http://${host}.${PORT_DOMAIN}`, '/.berth/open', '//x?y']);
});

test('says what is wrong, and keeps the address and the name', async () => {
  const to = `/notebook/${instanceId}/lab`;
  const wrong = await submit({ to, host: '', username: alice.username, password: 'wrong' });
  expect(wrong).toMatchObject({ status: 401, headers: { 'x-error-code': 'not_logged_in' } });
  expect(wrong.headers['set-cookie']).toBeUndefined();
  expect(wrong.text).toContain('The username (or email) or the password is wrong.');
  expect(wrong.text).toContain(`value="${to}"`);
  expect(wrong.text).toContain(`value="${alice.username}"`);
  expect(wrong.text).not.toContain('value="wrong"');
  expect(await submit({ to, host: '' })).toMatchObject({ status: 401 });
  expect(await submit({ to, host: '', username: alice.username })).toMatchObject({ status: 400 });
  const other = await api.newAccount();
  const foreign = await submit({ to, host: '', username: other.username, password: other.password });
  expect(foreign).toMatchObject({ status: 404, headers: { 'x-error-code': 'not_found' } });
  expect(foreign.text).toContain(`Continue as ${other.username}`);
});

test('limits wrong passwords as the API does', async () => {
  const mallory = await api.newAccount();
  const guess = (): Promise<Reply> =>
    submit({ to: `/notebook/${instanceId}/`, host: '', username: mallory.username, password: 'guess' });
  const statuses = [];
  for (let count = 0; count < 12; count++) statuses.push((await guess()).status);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(1);
  const refused = await guess();
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  const { status } = await api.post('/user/login', { username: mallory.username, password: mallory.password });
  // The address has logged in before, so its own bucket counts for both ways.
  expect(status).toBe(429);
});

describe('a view of the console', () => {
  const views = [
    '/',
    '/instances',
    '/instances?status=Running&q=a%20b',
    '/instances/x/logs?since=1#last',
    '/operator/fleet',
  ];

  test.each(views)('%s is where a login leads, with its cookie', async (to) => {
    const shown = await pageAt(to);
    expect(shown.status).toBe(200);
    expect(shown.text.includes('You return to')).toBe(to !== '/');
    const answered = await submit({ to, host: '', ...credentials() });
    expect(answered).toMatchObject({ status: 303, headers: { location: to } });
    expect(answered.headers['set-cookie']?.[0]).toMatch(/^AccessToken=.*; HttpOnly; SameSite=Lax$/);
  });

  test('is shown at once to who is logged in, and again after a wrong password', async () => {
    expect(await pageAt('/volumes', cookieOf(alice))).toMatchObject({ status: 303, headers: { location: '/volumes' } });
    expect(await api.send('/login', { headers: cookieOf(alice) })).toMatchObject({
      status: 303,
      headers: { location: '/' },
    });
    const wrong = await submit({ to: '/volumes', host: '', username: alice.username, password: 'wrong' });
    expect(wrong).toMatchObject({ status: 401, text: expect.stringContaining('value="/volumes"') });
    expect(wrong.headers['location']).toBeUndefined();
  });

  test('stays on this server for a browser, whatever its path is', async () => {
    for (const to of [
      '/instances//evil.test',
      '/instances/../../evil',
      '/instances/%2f%2fevil.test',
      '/instances/@evil.test',
    ]) {
      const { headers } = await submit({ to, host: '', ...credentials() });
      expect(new URL(headers['location'] ?? '', api.origin).origin).toBe(api.origin);
    }
  });
});

test('is in the language that the browser prefers, English or Chinese', async () => {
  const shownTo = async (language: string): Promise<string> =>
    (await pageAt('/', { 'accept-language': language })).text;
  for (const language of ['zh-CN,zh;q=0.9,en;q=0.8', 'zh', 'fr, zh-TW;q=0.5']) {
    expect(await shownTo(language)).toContain('lang="zh-CN"');
    expect(await shownTo(language)).toContain('用户名或邮箱');
  }
  for (const language of ['en-US,en;q=0.9,zh;q=0.8', 'fr', '', 'zh;q=0, de', ';;q=,zh;q=x'])
    expect(await shownTo(language)).toContain('lang="en"');
});

describe('attacks', () => {
  const foreign = ['https://evil.test', GATEWAY_ORIGIN, `http://8000-x.${PORT_DOMAIN}`, 'null'];
  test.each(foreign)('a form of a page of %s logs nobody in and opens nothing', async (origin) => {
    const to = `/notebook/${instanceId}/`;
    for (const fields of [
      { to, host: '', ...credentials() },
      { to, host: '' },
    ]) {
      const answered = await submit(fields, { origin, ...cookieOf(alice) });
      expect(answered.status).toBe(403);
      expect(answered.headers['set-cookie']).toBeUndefined();
      expect(answered.text).not.toContain('key=');
    }
  });

  test('a form without Origin from another site is refused by Sec-Fetch-Site', async () => {
    const body = new URLSearchParams({ to: `/notebook/${instanceId}/`, host: '', ...credentials() }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-site' };
    expect(await api.send('/login', { method: 'POST', body, headers })).toMatchObject({ status: 403 });
  });

  test('a GET opens no session, with a password in its address either', async () => {
    const query = new URLSearchParams({ to: `/notebook/${instanceId}/`, ...credentials() });
    const answered = await api.send(`/login?${query.toString()}`, { headers: cookieOf(alice) });
    expect(answered.text).not.toContain('key=');
    expect(answered.text).not.toContain(alice.password);
    expect(answered.headers['set-cookie']).toBeUndefined();
  });

  test.each([
    ['https://evil.test/', ''],
    ['//evil.test/', ''],
    ['/\\evil.test/', ''],
    ['', ''],
    ['/\\', ''],
    ['//', ''],
    ['///evil.test', ''],
    ['/\t/evil.test', ''],
    ['https:evil.test', ''],
    ['https:/evil.test', ''],
    ['javascript:alert(1)', ''],
    ['evil', ''],
    ['/instances\r\nLocation: //evil', ''],
    ['/instances\\..\\\\evil', ''],
    ['/instances/ /evil', ''],
    ['/instancesevil', ''],
    ['/api/evil', ''],
    ['/login?to=//evil.test', ''],
    ['/instances', 'evil.test'],
    ['/instances/\u{1f600}evil', ''],
    [`/instances/${'a'.repeat(3_000)}`, ''],
    ['/open?key=x', ''],
    ['/notebook/x/', ''],
    ['/notebook/../evil', ''],
    ['/lab', 'evil.test'],
    ['/lab', 'evil.test#'],
    ['/lab', '8000-evil@evil.test:80/'],
    ['/.berth/open?key=x', '8000-ID'],
    ['/lab', '8000-ID.evil.test/'],
    ['/lab', '8000-ID@evil.test/x?'],
    ['/notebook/ID/lab\r\nSet-Cookie: a=b', ''],
    ['/notebook/ID/lab?\r\nSet-Cookie: a=b', ''],
    ['/notebook/ID/lab?\u0000', ''],
    ['/notebook/ID/\u{1f600}', ''],
    [`/notebook/ID/${'a'.repeat(3_000)}`, ''],
  ])('refuses to lead to %j at host %j', async (asked, hostAsked) => {
    const [to, host] = [asked.replace('ID', instanceId), hostAsked.replace('ID', instanceId)];
    for (const answered of [await pageAt(to, cookieOf(alice), host), await submit({ to, host }, cookieOf(alice))]) {
      expect(answered.status).toBe(400);
      expect(answered.text).not.toContain('key=');
      expect(answered.text).not.toContain('evil');
      expect(answered.text).toMatch(/open the address of the notebook or port again/);
    }
  });

  test('nothing of the address or the name becomes markup', async () => {
    const to = `/notebook/${instanceId}/?"><script>alert(1)</script>`;
    const username = '"><img src=x onerror=alert(1)>';
    for (const { text } of [await pageAt(to), await submit({ to, host: '', username, password: 'x' })])
      expect(text).not.toMatch(/<script|<img/);
  });

  test('no page may frame, cache or extend it, and its addresses go to nobody', async () => {
    const to = `/notebook/${instanceId}/`;
    for (const { headers } of [
      await pageAt(to),
      await pageAt('/'),
      await submit({ to, host: '' }, cookieOf(alice)),
      await submit({ to, host: '' }),
    ]) {
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'referrer-policy': 'origin',
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
      });
      expect(headers['content-security-policy']).toMatch(
        /^default-src 'none'; style-src 'sha256-[\w+/=]+'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
      );
    }
  });

  test('a body that is no form, or a large one, is refused', async () => {
    const json = await submit({}, { 'content-type': 'application/json' });
    expect(json).toMatchObject({ status: 400 });
    expect(json.text).toContain('POST /api/user/login');
    expect(await submit({ to: 'x'.repeat(20_000) })).toMatchObject({ status: 413 });
    expect(await api.send('/login', { method: 'PUT' })).toMatchObject({
      status: 405,
      headers: { allow: 'GET, HEAD, POST' },
    });
  });

  test('neither password nor key is logged', async () => {
    const link = linkIn(await submit({ to: `/notebook/${instanceId}/`, host: '', ...credentials() }));
    const logged = JSON.stringify(api.logged);
    expect(logged).not.toContain(link.searchParams.get('key'));
    expect(logged).not.toContain(alice.password);
  });
});
