import { expect, test } from 'vitest';
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
  await browser(harness).go('/open?key=key-a');
  const again = await browser(harness).go('/open?key=key-a');
  expect(again.status).toBe(410);
  expect(again.headers['set-cookie']).toBeUndefined();
  expect(again.body).toContain(`href="${API_ORIGIN}/"`);
  expect(await browser(harness).go('/open')).toMatchObject({ status: 400 });
  expect(await browser(harness).go('/open?key=')).toMatchObject({ status: 400 });
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
