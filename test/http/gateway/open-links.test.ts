import { describe, expect, test } from 'vitest';
import { ALICE, API_ORIGIN, MALLORY, ask, echoHead, idOf, serve, start } from './harness.ts';
import type { Answered, Harness } from './harness.ts';

const A = idOf('a');
const M = idOf('b');

/** A minimal browser: cookies and redirects. */
function browser(harness: Harness): {
  jar: Map<string, string>;
  go(path: string, more?: Record<string, string>): Promise<Answered>;
} {
  const jar = new Map<string, string>();
  return {
    jar,
    async go(path, more = {}) {
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
      const headers = { accept: 'text/html', ...(cookie === '' ? {} : { cookie }), ...more };
      const answered = await ask(harness, path, { headers });
      for (const set of answered.headers['set-cookie'] ?? []) {
        const [name = '', value = ''] = (set.split(';')[0] ?? '').split('=');
        jar.set(name, value);
      }
      return answered;
    },
  };
}

async function withLinks(more: Parameters<typeof start>[0] = {}): Promise<Harness> {
  const inside = await serve(echoHead);
  const harness = await start(more);
  harness.add(A, { owner: ALICE, ports: { 8888: inside.port, 81: inside.port } });
  harness.add(M, { owner: MALLORY, publicPorts: [80], ports: { 80: inside.port, 8888: inside.port } });
  harness.handovers.set('key-a', { accountId: ALICE, instanceId: A });
  harness.handovers.set('key-a2', { accountId: ALICE, instanceId: A });
  harness.handovers.set('key-m', { accountId: MALLORY, instanceId: M });
  return harness;
}

test('a link sets a session cookie and redirects to the notebook', async () => {
  const harness = await withLinks();
  const { go } = browser(harness);
  const opened = await go('/open?key=key-a');
  expect(opened).toMatchObject({
    status: 303,
    headers: { location: `/notebook/${A}/`, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
  });
  expect(opened.headers['set-cookie']).toEqual([
    `berth_gateway=session-of-${ALICE}-key-a; Path=/; HttpOnly; SameSite=Lax`,
  ]);
  expect(await go(String(opened.headers.location))).toMatchObject({ status: 200 });
  expect(await go(`/forward/${A}/81/`)).toMatchObject({ status: 200 });
  expect(await go(`/notebook/${M}/`)).toMatchObject({ status: 404 });
});

test('a link may open a port', async () => {
  const harness = await withLinks();
  expect(await browser(harness).go('/open?key=key-a&port=81')).toMatchObject({
    status: 303,
    headers: { location: `/forward/${A}/81/` },
  });
  for (const port of ['0', '65536', 'x', '81/../..', '//evil.test']) {
    expect(await browser(harness).go(`/open?key=key-a2&port=${encodeURIComponent(port)}`)).toMatchObject({
      status: 400,
    });
  }
});

test('a link works once; a used one shows a page with a way to log in', async () => {
  const harness = await withLinks();
  const link = `/open?key=key-a&to=/notebook/${A}/lab`;
  await browser(harness).go(link);
  const again = await browser(harness).go(link);
  expect(again.status).toBe(410);
  expect(again.headers['set-cookie']).toBeUndefined();
  expect(again.body).toContain(`href="${API_ORIGIN}/login?to=%2Fnotebook%2F${A}%2Flab"`);
  expect(await browser(harness).go('/open')).toMatchObject({ status: 400 });
  expect(await browser(harness).go('/open?key=')).toMatchObject({ status: 400 });
});

test('a link leads to one address of its instance', async () => {
  const harness = await withLinks({ portDomain: 'gpu.test' });
  const key = async (): Promise<string> => {
    harness.handovers.set('fresh', { accountId: ALICE, instanceId: A });
    return 'fresh';
  };
  const host = `81-${A}.gpu.test`;
  for (const [to, headers, location] of [
    [`/notebook/${A}/lab/a%20b?x=%2F&y`, {}, `/notebook/${A}/lab/a%20b?x=%2F&y`],
    [`/forward/${A}/81/x?`, {}, `/forward/${A}/81/x?`],
    ['/x?y', { host }, '/x?y'],
    ['//evil.test/x', { host }, '/.//evil.test/x'],
  ] as const) {
    const path = 'host' in headers ? '/.berth/open' : '/open';
    const answered = await browser(harness).go(`${path}?key=${await key()}&to=${encodeURIComponent(to)}`, headers);
    expect(answered).toMatchObject({ status: 303, headers: { location } });
    // A browser stays on the host.
    expect(new URL(location, 'http://host.test').host).toBe('host.test');
  }
  for (const to of [
    'https://evil.test/',
    '//evil.test/',
    '/',
    '/open?key=x',
    `/notebook/${A}/../x`,
    `/notebook/${A}/x\r\nSet-Cookie: a=b`,
    `/notebook/${A}/x?\r\nSet-Cookie: a=b`,
    `/notebook/${A}/\u00e9`,
  ]) {
    const answered = await browser(harness).go(`/open?key=${await key()}&to=${encodeURIComponent(to)}`);
    expect(answered.status, to).toBe(400);
    expect(answered.headers['set-cookie']).toBeUndefined();
  }
  const other = await browser(harness).go(`/open?key=${await key()}&to=/notebook/${M}/`);
  expect(other.status).toBe(410);
  expect(other.headers['set-cookie']).toBeUndefined();
});

test('asks for confirmation of the whole link, address included', async () => {
  const harness = await withLinks();
  const to = encodeURIComponent(`/notebook/${A}/lab?x=1&y`);
  const asked = await browser(harness).go(`/open?key=key-a&to=${to}`, { 'sec-fetch-site': 'cross-site' });
  expect(asked.body).toContain(`href="/open?key=key-a&amp;to=${to}"`);
});

describe('the page for a visitor without a session leads to the login of the API', () => {
  const linkOf = async (harness: Harness, path: string, headers: Record<string, string> = {}) => {
    const answered = await ask(harness, path, { headers: { accept: 'text/html', ...headers } });
    expect([401, 404]).toContain(answered.status);
    const [, href = ''] = /href="([^"]*)"/.exec(answered.body) ?? [];
    return href.replaceAll('&amp;', '&');
  };
  const login = (to: string, host = ''): string => `${API_ORIGIN}/login?to=${encodeURIComponent(to)}${host}`;

  test('with the address asked for, and back', async () => {
    const harness = await withLinks({ portDomain: 'gpu.test' });
    const path = `/notebook/${A}/lab?x=1&y=%2F`;
    expect(await linkOf(harness, path)).toBe(login(path));
    expect(await linkOf(harness, `/forward/${A}/81/x`)).toBe(login(`/forward/${A}/81/x`));
    expect(await linkOf(harness, '/x', { host: `81-${A}.gpu.test` })).toBe(login('/x', `&host=81-${A}`));
    // Of an unknown instance and of another account's, too.
    const unknown = `/notebook/${idOf('c')}/`;
    expect(await linkOf(harness, unknown)).toBe(login(unknown));
    const { go } = browser(harness);
    await go('/open?key=key-m');
    const { status, body } = await go(path);
    expect([status, body.includes('Log in with another account')]).toEqual([404, true]);
  });

  test('without tokens of links, and without addresses that no header may have', async () => {
    const harness = await withLinks();
    expect(await linkOf(harness, `/forward/${A}/81/x?a&berth_share=secret`)).toBe(login(`/forward/${A}/81/x?a`));
    expect(await linkOf(harness, `/notebook/${A}/${'x'.repeat(3_000)}`)).toBe(login(`/notebook/${A}/`));
  });

  test('says what to do where the API has a loopback address only', async () => {
    const harness = await withLinks({ apiUrl: 'http://127.0.0.1:8080', portDomain: 'gpu.test' });
    const path = `/notebook/${A}/`;
    const headers = { accept: 'text/html', host: 'gpu.test' };
    const { body } = await ask(harness, path, { headers });
    expect(body).not.toContain('href');
    expect(body).toContain('POST /api/instance/open');
    expect(body).toContain('BERTH_API_URL');
    for (const host of ['127.0.0.1:8081', 'localhost', '80-x.gpu.localhost', '[::1]:8081'])
      expect(await linkOf(harness, path, { host })).toBe(`http://127.0.0.1:8080/login?to=${encodeURIComponent(path)}`);
  });
});

test('a preview does not use up a link', async () => {
  const harness = await withLinks();
  expect(await ask(harness, '/open?key=key-a', { method: 'HEAD' })).toMatchObject({
    status: 405,
    headers: { allow: 'GET' },
  });
  expect(await ask(harness, '/open?key=key-a', { method: 'POST' })).toMatchObject({ status: 405 });
  expect(await browser(harness).go('/open?key=key-a')).toMatchObject({ status: 303 });
});

test('sets a Secure cookie over TLS', async () => {
  const harness = await withLinks({ publicOrigin: 'https://gateway.example' });
  const opened = await browser(harness).go('/open?key=key-a');
  expect(opened.headers['set-cookie']?.[0]).toMatch(/; Secure$/);
});

test('replaces the browser’s account, and clears its stored site data', async () => {
  const harness = await withLinks();
  const { go, jar } = browser(harness);
  expect((await go('/open?key=key-a')).headers['clear-site-data']).toBe('"cache", "storage"');
  // The same account again: nothing is cleared.
  expect((await go('/open?key=key-a2')).headers['clear-site-data']).toBeUndefined();
  expect((await go('/open?key=key-m')).headers['clear-site-data']).toBe('"cache", "storage"');
  expect([...jar.keys()]).toEqual(['berth_gateway']);
  expect(await go(`/notebook/${A}/`)).toMatchObject({ status: 404 });
  expect(await go(`/notebook/${M}/`)).toMatchObject({ status: 200 });
});

test('asks for confirmation of a link opened by a cross-site page', async () => {
  const harness = await withLinks();
  const navigation = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
  const from = async (more: Record<string, string>, key = 'key-m'): Promise<Answered> =>
    browser(harness).go(`/open?key=${key}`, { ...navigation, ...more });
  const unauthorizedHeaders: Record<string, string>[] = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'cross-site', referer: 'https://evil.test/' },
    { 'sec-fetch-site': 'cross-site', referer: 'no address' },
    // Same as from a foreign port on its own host.
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'same-site', referer: 'http://8000-other.console.test/' },
    { referer: 'https://evil.test/' },
    { referer: `${API_ORIGIN}.evil.test/` },
    { referer: 'http://console.test.evil.test:8080/' },
  ];
  for (const more of unauthorizedHeaders) {
    const answered = await from(more);
    expect(answered.status).toBe(200);
    expect(answered.headers['set-cookie']).toBeUndefined();
    expect(answered.body).toContain('href="/open?key=key-m"');
    expect(answered.headers['content-security-policy']).toContain("frame-ancestors 'none'");
  }
  expect(await from({ 'sec-fetch-site': 'same-origin', referer: `${harness.origin}/` })).toMatchObject({ status: 303 });
  expect(await from({ 'sec-fetch-site': 'cross-site', referer: `${API_ORIGIN}/` }, 'key-a')).toMatchObject({
    status: 303,
  });
  expect(await from({ 'sec-fetch-site': 'same-site', referer: `${API_ORIGIN}/` }, 'key-a2')).toMatchObject({
    status: 303,
  });
});

test('escapes link contents, and never logs them', async () => {
  const harness = await withLinks();
  const evil = encodeURIComponent('"><script>alert(1)</script>');
  const answered = await browser(harness).go(`/open?key=${evil}`, { 'sec-fetch-site': 'cross-site' });
  expect(answered.body).not.toContain('<script');
  await browser(harness).go('/open?key=key-a');
  await browser(harness).go('/open?key=key-a');
  expect(JSON.stringify(harness.logged)).not.toContain('key-a');
});
