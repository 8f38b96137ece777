/** Rates, security headers, and pages of other sites at the API's edge. */
import { expect, onTestFinished, test } from 'vitest';
import { CHECK_BODY_BYTES, CHECK_PATHS } from '../../../src/contract/proxy-check.ts';
import { ACCESS_COOKIE, BASE_PATH, routeNames, routeOf } from '../../../src/contract/routes.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { makeRequestRates } from '../../../src/edge/http/request-rates.ts';
import { fakeControl, GOOD_TOKEN as token } from './fake-control.ts';
import { launchRequest, startEdge, type BareApi } from './harness.ts';

async function start(rate: number, more: Partial<ApiOptions> = {}): Promise<BareApi> {
  const control = fakeControl({
    quotas: { requestsPerSecond: () => rate },
    instances: { launch: async () => ({ instanceId: 'notebook-1', operationId: 'notebook-1.1' }) },
  });
  // No bucket fills while a slow machine is at it.
  const api = await startEdge(control, { rateClock: () => 0, ...more });
  onTestFinished(() => api.stop());
  return api;
}

test('counts a create as five lists, then answers 429 with the wait and what is left', async () => {
  const api = await start(2);
  const info = () => api.post('/user/info', {}, { token });
  const first = await info();
  expect(first.headers).toMatchObject({ 'ratelimit-policy': '"account";q=20;w=10', ratelimit: '"account";r=19;t=1' });
  await api.post('/instance/create', launchRequest(), { token });
  expect((await info()).headers.ratelimit).toBe('"account";r=13;t=4');
  for (let count = 0; count < 12; count += 1) await info();
  const refused = await api.post('/instance/create', launchRequest(), { token });
  expect(refused).toMatchObject({ status: 429, headers: { 'x-error-code': 'too_many_requests' } });
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
  expect(refused.headers.ratelimit).toMatch(/^"account";r=[0-4];t=/);
  expect(refused.text).toContain('exceed 2 a second, its quota \\"requestsPerSecond\\"');
});

test('counts requests of an address before their credential, but not of a proxy', async () => {
  const api = await start(1_000, { addressRate: 1 });
  const strange = () => api.post('/user/info', {}, { token: 'wrong' });
  for (let count = 0; count < 10; count += 1) expect((await strange()).status).toBe(401);
  expect(await strange()).toMatchObject({ status: 429, headers: { 'ratelimit-policy': '"address";q=10;w=10' } });
  const behind = await start(1_000, { addressRate: 1, trustedProxies: ['127.0.0.1'] });
  for (let count = 0; count < 12; count += 1)
    expect((await behind.send('/healthz', { method: 'GET' })).status).toBe(200);
});

test('answers bodies of the check of proxies up to 4 MB, and counts each as 64 requests', async () => {
  const api = await start(1_000, { addressRate: 15 });
  const sendBody = (bytes: number) =>
    api.send(CHECK_PATHS.body, { method: 'POST', body: Buffer.alloc(bytes), token: 'wrong' });
  expect((await sendBody(CHECK_BODY_BYTES)).json).toEqual({ bytes: CHECK_BODY_BYTES });
  expect(await sendBody(CHECK_BODY_BYTES + 1)).toMatchObject({
    status: 413,
    json: { message: expect.stringContaining('at most 4194304 bytes') },
  });
  expect((await sendBody(1)).status).toBe(429);
});

test('refills a bucket, counts all of an IPv6 /64, and keeps its memory in a flood of addresses', () => {
  let nowMs = 1_000_000;
  const rates = makeRequestRates({ perAddress: 1, perAccount: () => 1, isProxy: () => false, now: () => nowMs });
  const reply = { header: () => reply };
  // The reply is used for its headers alone.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const take = (address: string) => rates.takeOfAddress(address, reply as never);
  for (let count = 0; count < 10; count += 1) take(`2001:db8:1:2::${count}`);
  expect(() => take('2001:db8:1:2:ffff::1')).toThrow(/requests of this address exceed 1 a second; wait 1 s/);
  take('2001:db8:1:3::1');
  nowMs += 1_000;
  take('2001:db8:1:2::1');
  expect(() => take('2001:db8:1:2::1')).toThrow(/exceed/);
  for (let count = 0; count < 250_000; count += 1) take(`10.${count >> 16}.${(count >> 8) & 255}.${count & 255}`);
  expect(rates.size).toBeLessThanOrEqual(100_000);
});

test('sends the security headers with answers, errors and pages; HSTS only where it is set', async () => {
  const headers = {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'content-security-policy': expect.stringContaining("frame-ancestors 'none'"),
    'permissions-policy': expect.stringContaining('camera=()'),
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  };
  const api = await start(1_000);
  const strict = await start(1_000, { strictTransport: true });
  for (const [path, given] of [
    ['/', { method: 'GET' }],
    ['/api/user/info', { method: 'POST', token, body: {} }],
    ['/api/user/info', { method: 'POST', token: 'wrong', body: {} }],
    ['/nothing', { method: 'GET' }],
    ['/login?to=x', { method: 'GET' }],
    ['/api/openapi.json', { method: 'GET' }],
  ] as const) {
    const reply = await api.send(path, given);
    const { 'referrer-policy': referrer, ...others } = headers;
    expect(reply.headers, path).toMatchObject(path.startsWith('/login') ? others : headers);
    expect(reply.headers['strict-transport-security']).toBeUndefined();
    expect((await strict.send(path, given)).headers['strict-transport-security']).toBe('max-age=31622400');
    expect(referrer).toBe('no-referrer');
  }
});

test('refuses the login cookie from pages of other origins on every route', async () => {
  const api = await start(1_000_000);
  const cookie = `${ACCESS_COOKIE}=${token}`;
  const origins: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
  ];
  for (const name of routeNames) {
    const { method, path } = routeOf(name);
    const url = BASE_PATH + path.replace('{id}', 'v').replace('{path}', 'f');
    for (const foreign of origins) {
      const body = method === 'POST' ? {} : undefined;
      const { status } = await api.send(url, { method, headers: { cookie, ...foreign }, body });
      expect(`${name} ${status}`).toBe(`${name} 403`);
    }
  }
});

test('takes a KiB of a body as a request more, of the account or of the address', async () => {
  const api = await start(100, { addressRate: 50 });
  const left = async (bytes: number, path = '/instance/list') => {
    const { headers } = await api.post(
      path,
      `{"x":"${'x'.repeat(bytes)}"}`,
      path === '/instance/list' ? { token } : {},
    );
    return Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]);
  };
  expect(await left(0)).toBe(999);
  expect(await left(500_000)).toBeLessThan(525);
  expect(await left(500_000)).toBeLessThan(50);
  expect((await api.post('/instance/list', `{"x":"${'x'.repeat(500_000)}"}`, { token })).status).toBe(429);
  const before = await left(0, '/user/login');
  expect(await left(3_900, '/user/login')).toBeLessThanOrEqual(before - 3);
});

test('takes 64 KiB of a file that anybody reads as a request more of the address', async () => {
  const api = await start(1_000, { addressRate: 5 });
  const read = (headers = {}) => api.send('/api/openapi.json', { method: 'GET', headers });
  const first = await read();
  const cost = 1 + Math.floor(Buffer.byteLength(first.text) / 65_536);
  expect(cost).toBeGreaterThan(3);
  expect(first.headers.ratelimit).toContain(`;r=${50 - cost};`);
  const known = await read({ 'if-none-match': String(first.headers.etag) });
  expect(known).toMatchObject({ status: 304, headers: { ratelimit: expect.stringContaining(`;r=${49 - cost};`) } });
  const statuses = await Promise.all(Array.from({ length: 50 }, async () => (await read()).status));
  expect(statuses).toContain(429);
});

test('takes the bytes of a body that is refused, too', async () => {
  const api = await start(100);
  const left = async (body: string, status: number) => {
    const answer = await api.post('/instance/list', body, { token });
    expect(answer.status).toBe(status);
    return Number(/r=(\d+)/.exec(String(answer.headers.ratelimit))?.[1]);
  };
  const text = 'x'.repeat(300_000);
  expect(await left(`{"x":"${text}","y":[${'1,'.repeat(4_100)}1]}`, 413)).toBeLessThan(710);
  expect(await left(`{"x":"${text}","y":${'['.repeat(70)}${']'.repeat(70)}}`, 400)).toBeLessThan(420);
  expect(await left(`{"x":"${text}"`, 400)).toBeLessThan(130);
  await left(`{"x":"${text}","y":[${'1,'.repeat(4_100)}1]}`, 429);
});
