/** Port hosts of a wildcard domain: each port has an origin of its own. */
import { describe, expect, test } from 'vitest';
import { targetOf } from '../../../src/edge/gateway/routing.ts';
import { ALICE, ask, echoHead, idOf, MALLORY, seenBy, serve, start, type Harness } from './harness.ts';

const [A, M] = [idOf('a'), idOf('b')];
const DOMAIN = 'gpu.test:8443';

describe('a host addresses one instance and one port', () => {
  test.each([
    [`8000-${A}.${DOMAIN}`, '/', 8000],
    [`8000-${A}.${DOMAIN}`.toUpperCase(), '/v1?x', 8000],
    [`65535-${A}.${DOMAIN}`, '/open?key=x', 65_535],
    [`80-${A}.${DOMAIN}`, `/forward/${M}/80/`, 80],
    [`80-${A}.${DOMAIN}`, `/notebook/${M}/`, 80],
    [`80-${A}.${DOMAIN}`, '/.berthx/open', 80],
  ])('%s%s', (host, path, port) => {
    expect(targetOf(host, path, DOMAIN)).toEqual({
      kind: 'instance',
      mount: 'host',
      instanceId: A,
      port,
      prefix: '',
      upstreamPath: path,
      withSlash: null,
    });
  });

  test.each([
    `0-${A}.${DOMAIN}`,
    `080-${A}.${DOMAIN}`,
    `65536-${A}.${DOMAIN}`,
    `-${A}.${DOMAIN}`,
    `${A}.${DOMAIN}`,
    `80-${A}-x.${DOMAIN}`,
    `80-${A}.x.${DOMAIN}`,
    `x.80-${A}.${DOMAIN}`,
    `80-${A}..${DOMAIN}`,
    `.${DOMAIN}`,
    `80--${A}.${DOMAIN}`,
    `80-${M.slice(1)}.${DOMAIN}`,
  ])('%s addresses no port', (host) => {
    expect(targetOf(host, `/forward/${A}/80/`, DOMAIN)).toEqual({ kind: 'unknown' });
  });

  test.each([DOMAIN, `x${DOMAIN}`, `80-${A}.gpu.test`, `80-${A}.gpu.test:8444`, `80-${A}.${DOMAIN}.evil`, 'evil'])(
    "%s is no port's host; its paths are read as on the gateway's host",
    (host) => {
      expect(targetOf(host, `/forward/${M}/81/`, DOMAIN)).toMatchObject({
        mount: 'forward',
        instanceId: M,
        port: 81,
      });
    },
  );

  test('refuses unsafe paths at a port host', () => {
    for (const path of ['/a/../b', '/%2e%2e/x', '/a\\b', 'http://x/'])
      expect(targetOf(`80-${A}.${DOMAIN}`, path, DOMAIN)).toMatchObject({ kind: 'refused' });
  });
});

async function gateway(more: Parameters<typeof start>[0] = {}): Promise<Harness> {
  const inside = await serve(echoHead);
  const harness = await start({ portDomain: DOMAIN, ...more });
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: inside.port, 81: inside.port } });
  harness.add(M, { owner: MALLORY, publicPorts: [80], ports: { 80: inside.port } });
  for (const key of ['one', 'two']) harness.handovers.set(key, { accountId: ALICE, instanceId: A });
  return harness;
}

const at = (port: number, id = A): string => `${port}-${id}.${DOMAIN}`;

test('serves a public port at its host unsandboxed, with unchanged paths and cookies', async () => {
  const harness = await gateway();
  const answered = await ask(harness, '/x/y?z', { headers: { host: at(80) } });
  expect(answered.status).toBe(200);
  const seen = seenBy(answered);
  expect(seen).toMatchObject({ url: '/x/y?z', headers: { 'x-forwarded-host': at(80) } });
  expect(seen.headers['x-forwarded-prefix']).toBeUndefined();
  expect(answered.headers['content-security-policy']).toBeUndefined();
  const onPath = await ask(harness, `/forward/${A}/80/`, { headers: { host: DOMAIN } });
  expect(onPath.headers['content-security-policy']).toMatch(/^sandbox/);
});

test('passes headers that act on a whole origin, such as Accept-CH, from the host of a port', async () => {
  const inside = await serve((_req, res) => res.setHeader('Accept-CH', 'Sec-CH-UA-Model').end());
  const harness = await start({ portDomain: DOMAIN });
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: inside.port } });
  const passed = await ask(harness, '/', { headers: { host: at(80) } });
  expect(passed.headers['accept-ch']).toBe('Sec-CH-UA-Model');
  const shared = await ask(harness, `/forward/${A}/80/`);
  expect(shared.status).toBe(200);
  expect(shared.headers).not.toHaveProperty('accept-ch');
});

test('opens a private port to its owner by a link, with a session for that host only', async () => {
  const harness = await gateway();
  const host = at(81);
  expect((await ask(harness, '/', { headers: { host } })).status).toBe(401);
  const opened = await ask(harness, '/.berth/open?key=one', { headers: { host } });
  expect(opened).toMatchObject({ status: 303, headers: { location: '/' } });
  const [set = ''] = opened.headers['set-cookie'] ?? [];
  expect(set).toBe(`berth_gateway=session-of-${ALICE}-one; Path=/; HttpOnly; SameSite=Lax`);
  const cookie = set.split(';')[0] ?? '';
  const shown = await ask(harness, '/', { headers: { host, cookie } });
  expect(shown.status).toBe(200);
  expect(shown.body).not.toContain('session-of');
  expect((await ask(harness, '/', { headers: { host: at(81, M), cookie } })).status).toBe(404);
});

test('a link opens the host of its own instance only', async () => {
  const harness = await gateway();
  const opened = await ask(harness, '/.berth/open?key=one', { headers: { host: at(80, M) } });
  expect(opened.status).toBe(410);
  expect(opened.headers['set-cookie']).toBeUndefined();
});

test('uses a host-prefixed session cookie over TLS', async () => {
  const harness = await gateway({ trustedProxies: ['127.0.0.1'] });
  const secure = { host: at(81), 'x-forwarded-proto': 'https' };
  const opened = await ask(harness, '/.berth/open?key=one', { headers: secure });
  const [set = ''] = opened.headers['set-cookie'] ?? [];
  expect(set).toMatch(/^__Host-berth_gateway=.*; Path=\/; HttpOnly; SameSite=Lax; Secure$/);
  const cookie = set.split(';')[0] ?? '';
  expect((await ask(harness, '/', { headers: { ...secure, cookie } })).status).toBe(200);
  // A cookie without the host prefix, as a sibling host could set for the whole domain, is ignored.
  const planted = `berth_gateway=planted; ${cookie}`;
  expect((await ask(harness, '/', { headers: { ...secure, cookie: planted } })).status).toBe(200);
  expect((await ask(harness, '/', { headers: { ...secure, cookie: cookie.slice(7) } })).status).toBe(401);
});

test('rejects requests of one port’s page to another port', async () => {
  const harness = await gateway();
  const cookie = `berth_gateway=${await session(harness)}`;
  const host = at(81);
  const from = (origin: string, method = 'POST') => ask(harness, '/', { method, headers: { host, cookie, origin } });
  expect((await from(`http://${host}`)).status).toBe(200);
  expect((await from(`http://${at(80)}`)).status).toBe(403);
  expect((await from(`http://${at(80, M)}`)).status).toBe(403);
  expect((await from(`http://${DOMAIN}`)).status).toBe(403);
  const embedded = { host, cookie, 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' };
  expect((await ask(harness, '/', { headers: embedded })).status).toBe(401);
});

async function session(harness: Harness): Promise<string> {
  const opened = await ask(harness, '/.berth/open?key=two', { headers: { host: at(81) } });
  return /berth_gateway=([^;]+)/.exec(String(opened.headers['set-cookie']))?.[1] ?? '';
}

test('lists the valid address forms at an unknown address', async () => {
  const nowhere = { headers: { host: 'other.test' } };
  const withHosts = await ask(await start({ portDomain: DOMAIN }), '/', nowhere);
  expect(withHosts).toMatchObject({ status: 404, body: expect.stringContaining(`<port>-<instanceId>.${DOMAIN}`) });
  const without = await ask(await start(), '/', nowhere);
  expect(without).toMatchObject({ status: 404, body: expect.stringContaining('/forward/<instanceId>/<port>/') });
  expect(without.body).not.toContain('<port>-<instanceId>');
});
