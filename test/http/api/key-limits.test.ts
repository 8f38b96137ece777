/** Scopes and addresses of API keys, at routes of JSON, streams and WebSockets. */
import { expect, onTestFinished, test } from 'vitest';
import { BASE_PATH, routeNames, routes } from '../../../src/contract/routes.ts';
import { mayUse, scopes, type Scope } from '../../../src/domain/access/scopes.ts';
import { startApi, startEdge } from './harness.ts';

test('a key reaches the routes of its scopes, and no others', async () => {
  const api = await startApi();
  onTestFinished(() => api.stop());
  const keys = new Map<Scope, string>();
  for (const scope of scopes)
    keys.set(scope, (await api.admin.client.createApiKey({ name: scope, scopes: [scope] })).key.fullKey);
  for (const name of routeNames) {
    const { method, path, who, subject, reads } = routes[name];
    if (who === 'anyone' || name === 'events') continue;
    for (const [scope, key] of keys) {
      const target = BASE_PATH + path.replace('{id}', 'v').replace('{path}', 'a');
      const body = method === 'POST' ? { body: '{' } : {};
      const reply = await api.send(target, { method, headers: { 'x-api-key': key }, ...body });
      const isRefused = reply.headers['x-error-code'] === 'forbidden';
      expect(isRefused, `${name} with the scope ${scope}: ${reply.text}`).toBe(!mayUse([scope], { subject, reads }));
      if (isRefused && method !== 'HEAD') expect(reply.text).toMatch(/lacks the scope .* create a key with this scope/);
    }
  }
});

test('a key is refused from other addresses than its own, as a trusted proxy tells them', async () => {
  const api = await startApi();
  const behind = await startEdge(api.wired.control, { trustedProxies: ['127.0.0.1'] });
  onTestFinished(() => behind.stop().then(() => api.stop()));
  const addresses = ['192.0.2.0/24', '2001:db8::/32'];
  const { key } = await api.admin.client.createApiKey({ name: 'office', addresses });
  const infoWith = async (at: Pick<typeof api, 'post'>, sent: Record<string, string>): Promise<number> =>
    (await at.post('/user/info', {}, { headers: { 'x-api-key': key.fullKey, ...sent } })).status;
  const info = (at: Pick<typeof api, 'post'>, forwardedFor?: string): Promise<number> =>
    infoWith(at, forwardedFor ? { 'x-forwarded-for': forwardedFor } : {});
  expect(await info(behind, '192.0.2.9')).toBe(200);
  expect(await info(behind, '2001:db8::9')).toBe(200);
  for (const spelled of ['192.0.2.9:54321', '"192.0.2.9:1"', '[2001:db8::9]:443', 'unknown, 192.0.2.9:2', '192.0.2.9,'])
    expect([spelled, await info(behind, spelled)]).toEqual([spelled, 200]);
  expect(await info(behind, '192.0.2.9:1, 203.0.113.5:1')).toBe(403);
  expect(await info(behind, '192.0.2.9, 203.0.113.5')).toBe(403);
  expect(await info(behind)).toBe(403);
  expect(await info(api, '192.0.2.9')).toBe(403);
  expect(await infoWith(behind, { forwarded: 'for="[2001:db8::9]:443";proto=https' })).toBe(200);
  for (const before of ['x, ', 'for="x, ', ', ,', 'for=203.0.113.5, '])
    expect(await infoWith(behind, { forwarded: `${before}for="192.0.2.9:_p1",`, 'x-forwarded-host': 'x' })).toBe(200);
  expect(await infoWith(behind, { forwarded: 'for=192.0.2.9, for=203.0.113.5' })).toBe(403);
  expect(await infoWith(behind, { forwarded: 'for=192.0.2.9', 'x-forwarded-for': '203.0.113.5' })).toBe(403);
  expect(await infoWith(api, { forwarded: 'for=192.0.2.9' })).toBe(403);
  const reply = await api.send('/api/events', { headers: { 'x-api-key': key.fullKey } });
  expect(reply).toMatchObject({ status: 403, text: expect.stringContaining('from the address 127.0.0.1: use it') });
});

test('one address is one, whichever port a proxy tells with it', async () => {
  const api = await startApi();
  const behind = await startEdge(api.wired.control, { trustedProxies: ['127.0.0.1'] });
  onTestFinished(() => behind.stop().then(() => api.stop()));
  const statuses = new Set<number>();
  for (let port = 1; port <= 75; port += 1) {
    const headers = { 'x-forwarded-for': `203.0.113.7:${port}` };
    statuses.add(
      (await behind.post('/user/login', { username: `nobody${port}`, password: 'wrong' }, { headers })).status,
    );
  }
  expect([...statuses]).toEqual([401, 429]);
});
