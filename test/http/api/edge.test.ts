/**
 * Behavior of the HTTP edge alone: routes, methods, error bodies, headers, foreign origins, health.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { raceAbort } from '../../../src/async/abort.ts';
import { BASE_PATH, routeNames, routes } from '../../../src/contract/routes.ts';
import { makeArgon2Threads } from '../../../src/control/access/argon2-threads.ts';
import type { Idempotency } from '../../../src/control/index.ts';
import { Refusal, refusalCodes } from '../../../src/domain/kernel/refusal.ts';
import type { RefusalCode } from '../../../src/domain/kernel/refusal.ts';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import { ADMIN_TOKEN, fakeControl, GOOD_TOKEN } from './fake-control.ts';
import type { BareApi } from './harness.ts';
import { startEdge, launchRequest } from './harness.ts';

const started: BareApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.stop();
});
async function start(given: Parameters<typeof fakeControl>[0] = {}, more: Partial<ApiOptions> = {}): Promise<BareApi> {
  const api = await startEdge(fakeControl(given), more);
  started.push(api);
  return api;
}
const throwing = (error: unknown) => async (): Promise<never> => {
  throw error;
};
const token = GOOD_TOKEN;

/** More hashes than threads: some run when the pool ends, others wait. */
async function hashesAtStop(): Promise<unknown> {
  const { argon2id, stop } = makeArgon2Threads();
  const parameters = { message: 'x', nonce: Buffer.alloc(16), parallelism: 1, tagLength: 32, memory: 64, passes: 1 };
  const hashes = Array.from({ length: 9 }, () => argon2id(parameters));
  const [ended] = await Promise.all([Promise.allSettled(hashes), stop()]);
  const failed = ended.filter((one) => one.status === 'rejected');
  expect(failed.length).toBeGreaterThan(1);
  for (const { reason } of failed) expect(reason).toMatchObject({ name: 'AbortError' });
  throw failed[0]?.reason;
}

describe('routes and methods', () => {
  test('answers an unknown route with a JSON 404 that names method and path, with and without body or login', async () => {
    const api = await start();
    for (const [method, path] of [
      ['POST', '/api/instance/delete'],
      ['GET', '/api'],
      ['GET', '/nothing'],
      ['DELETE', '/api/instance/list/x'],
    ] as const) {
      const reply = await api.send(`${path}?secret=1`, { method, body: method === 'POST' ? 'not json' : undefined });
      expect(reply.status, path).toBe(404);
      expect(reply.json).toEqual({ message: `no route ${method} ${path}: GET /api/openapi.json lists all routes` });
      expect(reply.headers['x-error-code']).toBe('not_found');
    }
    expect((await api.send('/api/%zz')).status).toBe(404);
  });

  test('answers a wrong method with a 405 that lists the allowed ones', async () => {
    const api = await start();
    for (const name of routeNames) {
      const path = routes[name].path.replace('{id}', 'v').replace('{path}', 'a/b');
      const methods = routeNames
        .filter((one) => routes[one].path === routes[name].path)
        .flatMap((one) => (name === 'balance' ? ['GET', 'HEAD'] : [routes[one].method]));
      const takes = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE']
        .filter((one) => methods.some((method) => method === one))
        .join(', ');
      const other = methods.some((method) => method === 'PUT') ? 'PATCH' : 'PUT';
      const reply = await api.send(BASE_PATH + path, { method: other });
      expect(reply.status, name).toBe(405);
      expect(reply.headers['allow']).toBe(takes);
      expect(reply.json).toEqual({ message: `no route ${other} ${BASE_PATH}${path}: this path takes ${takes}` });
    }
  });

  test('GET /balance ignores any body', async () => {
    const money = { balance: 1, availableBalance: 1, availableVoucherAmount: 0, availableCreditAmount: 0 };
    const api = await start({ access: { balance: async () => money } });
    for (const body of ['{}', '{"a":1}', 'not json']) {
      const reply = await api.send('/api/balance', { token, body, headers: { 'content-type': 'application/json' } });
      expect(reply.json).toEqual(money);
    }
  });

  test('a route without required fields accepts an empty body; every other names the missing field', async () => {
    const api = await start({ catalog: { families: async () => [] } });
    const bare = { method: 'POST', token };
    expect((await api.send('/api/resource/user/instance/list', bare)).json).toEqual({ instanceInfos: [] });
    const reply = await api.send('/api/instance/list', bare);
    expect(reply.status).toBe(400);
    expect(reply.json).toEqual({ message: 'the body is empty, and field "pager" is not set' });
  });

  test('serves a landing page, the API document and health', async () => {
    const api = await start();
    const page = await api.send('/');
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(page.text).toContain('/api/openapi.json');
    expect((await api.send('/api/openapi.json')).json).toMatchObject({ openapi: '3.1.1', paths: expect.any(Object) });
    expect((await api.send('/healthz')).status).toBe(200);
    expect((await api.send('/readyz')).json).toEqual({ ready: true, status: 'ok', text: 'the fake is well' });
  });

  test('reports not ready while the store is unreachable', async () => {
    const api = await start({
      health: async () => ({ ready: false, isDegraded: true, text: 'the store does not answer' }),
    });
    const reply = await api.send('/readyz');
    expect(reply.status).toBe(503);
    expect(reply.json).toEqual({ message: 'the store does not answer' });
    expect(reply.headers['retry-after']).toBe('1');
    expect((await api.send('/healthz')).status).toBe(200);
  });
});

describe('errors', () => {
  const statuses: Record<RefusalCode, number> = {
    not_logged_in: 401,
    forbidden: 403,
    field_missing: 400,
    field_type: 400,
    field_value: 400,
    body_not_json: 400,
    body_too_large: 413,
    not_found: 404,
    name_taken: 409,
    in_use: 409,
    not_now: 409,
    unsupported: 400,
    no_capacity: 409,
    over_quota: 403,
    no_balance: 402,
    volume_full: 507,
    storage_full: 507,
    precondition_failed: 412,
    range_not_satisfiable: 416,
    idempotency_mismatch: 422,
    too_many_requests: 429,
    unavailable: 503,
  };

  test.each(refusalCodes)('%s keeps its status, message and code, as plain and as problem JSON', async (code) => {
    const refusal = throwing(new Refusal(code, 'these words', { retryAfterS: 2.5, detail: 'only for the log' }));
    const api = await start({ instances: { launch: refusal }, volumes: { delete: refusal } });
    const marked = code === 'not_logged_in' ? { code: -1 } : {};
    const plain = await api.post('/instance/create', launchRequest(), { token });
    expect(plain.status).toBe(statuses[code]);
    expect(plain.json).toEqual({ ...marked, message: 'these words' });
    expect(plain.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'x-error-code': code,
      'x-request-id': expect.stringMatching(/./),
      'retry-after': '3',
    });
    const problem = await api.post('/storage/volume/delete', { id: 'x' }, { token });
    expect(problem.status).toBe(statuses[code]);
    expect(problem.headers['content-type']).toBe('application/problem+json; charset=utf-8');
    expect(problem.json).toEqual({
      type: `urn:berth:problem:${code}`,
      title: expect.stringMatching(/./),
      status: statuses[code],
      detail: 'these words',
      message: 'these words',
      ...marked,
    });
    expect(plain.text + problem.text).not.toContain('only for the log');
    expect(JSON.stringify(api.logged)).toContain('only for the log');
  });

  test.each([
    ['an Error', new Error('SELECT secret FROM keys')],
    ['a TypeError', new TypeError('SELECT secret FROM keys')],
    ['a text', 'SELECT secret FROM keys'],
    ['undefined', undefined],
    [
      'an error that looks like a refusal',
      Object.assign(new Error('SELECT secret'), { code: 'not_found', statusCode: 200 }),
    ],
    ['an error with a status of its own', Object.assign(new Error('SELECT secret'), { statusCode: 418 })],
  ])('a server error (%s) is a 500 without its text, logged under the same request id', async (_name, fault) => {
    const api = await start({ instances: { launch: throwing(fault) } });
    const reply = await api.post('/instance/create', launchRequest(), { token, headers: { 'x-request-id': 'mine-1' } });
    expect(reply.status).toBe(500);
    expect(reply.json).toEqual({
      message: 'the server failed; quote the request id mine-1 to the operator, who finds the cause in the log',
    });
    expect(reply.headers).toMatchObject({ 'x-error-code': 'internal', 'x-request-id': 'mine-1' });
    expect(reply.text).not.toContain('SELECT');
    expect(api.logged).toContainEqual({
      level: 'error',
      facts: expect.objectContaining({ requestId: 'mine-1', path: '/api/instance/create', err: fault }),
      text: 'request failed',
    });
  });

  test.each<[string, () => Promise<unknown>]>([
    ['a signal', async () => AbortSignal.abort().throwIfAborted()],
    ['a deadline', () => raceAbort(new Promise(() => {}), AbortSignal.timeout(1))],
    ['a sleep', () => sleep(1, undefined, { signal: AbortSignal.abort() })],
    ['the hashes at a stop', hashesAtStop],
  ])('an abort of %s is a 503, and no error in the log: the server stops, or the client has gone', async (_, work) => {
    const launch = async (): Promise<never> => {
      await work();
      throw new Error('not aborted');
    };
    const api = await start({ instances: { launch } });
    const reply = await api.post('/instance/create', launchRequest(), { token });
    expect(reply).toMatchObject({ status: 503, headers: { 'x-error-code': 'unavailable', 'retry-after': '1' } });
    expect(api.logged).toEqual([]);
  });

  test('a server error during authentication is a 500, not a 401', async () => {
    const api = await start({ access: { authenticate: throwing(new Error('store away')) } });
    const reply = await api.post('/instance/list', {}, { token });
    expect(reply.status).toBe(500);
    expect(reply.text).not.toContain('store away');
  });

  test('uses a request id that is safe to log, and generates a unique one otherwise', async () => {
    const api = await start();
    const idOf = async (headers: Record<string, string>) =>
      (await api.send('/healthz', { headers })).headers['x-request-id'];
    expect(await idOf({ 'x-request-id': 'abc-1.2_3~4' })).toBe('abc-1.2_3~4');
    const made = [await idOf({}), await idOf({})];
    for (const odd of ['', ' ', 'a b', 'a"b', 'x'.repeat(101), 'ä']) made.push(await idOf({ 'x-request-id': odd }));
    for (const id of made) expect(id).toMatch(/^[0-9a-f]{12}-[0-9a-z]+$/);
    expect(new Set(made).size).toBe(made.length);
  });

  test('logs slow requests only', async () => {
    const api = await start({ catalog: { families: async () => [] } }, { slowMs: 0 });
    await api.post('/resource/user/instance/list', {}, { token });
    expect(api.logged).toEqual([expect.objectContaining({ level: 'warn', text: 'slow request' })]);
    const quick = await start({ catalog: { families: async () => [] } }, { slowMs: 60_000 });
    await quick.post('/resource/user/instance/list', {}, { token });
    expect(quick.logged).toEqual([]);
  });
});

describe('a page of another origin', () => {
  const families = async () => [];
  const route = '/resource/user/instance/list';
  const cookie = `AccessToken=${GOOD_TOKEN}`;

  test("may neither use a browser's login nor log it in as another account", async () => {
    const login = async () => ({ accessToken: 'x', accessExpire: 86_400 });
    const api = await start({ catalog: { families }, access: { login } });
    const foreign = [
      'https://evil.test',
      api.origin.replace('http:', 'https:'),
      api.origin.replace('//', '//evil@'),
      `http://127.0.0.1:${api.port + 1}`,
      'null',
      'nonsense',
      `${api.origin}.evil.test`,
    ];
    for (const origin of foreign) {
      const reply = await api.post(route, {}, { headers: { cookie, origin, 'content-type': 'text/plain' } });
      expect(reply.status, origin).toBe(403);
      expect(reply.headers['x-error-code']).toBe('forbidden');
      expect((await api.post('/user/login', { username: 'a', password: 'b' }, { headers: { origin } })).status).toBe(
        403,
      );
    }
  });

  test('may use its own token or key; pages of this origin and configured origins may use the cookie', async () => {
    const api = await start({ catalog: { families } }, { ownOrigins: ['https://cloud.example.org'] });
    const allowed: Record<string, string>[] = [
      { authorization: `Bearer ${GOOD_TOKEN}`, origin: 'https://evil.test' },
      { 'x-api-key': GOOD_TOKEN, cookie, origin: 'https://evil.test' },
      { cookie, origin: api.origin },
      { cookie, origin: 'https://cloud.example.org' },
      { cookie },
    ];
    for (const headers of allowed) {
      expect((await api.post(route, {}, { headers })).status, JSON.stringify(headers)).toBe(200);
    }
  });

  test('marks cookies Secure when browsers use https', async () => {
    const login = async () => ({ accessToken: 'x', accessExpire: 86_400 });
    const api = await start({ access: { login } }, { secureCookies: true });
    const reply = await api.post('/user/login', { username: 'a', password: 'b' });
    expect(reply.headers['set-cookie']).toEqual([
      'AccessToken=x; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure',
    ]);
  });
});

describe('Idempotency-Key', () => {
  async function keysSeen(): Promise<{ api: BareApi; seen: (Idempotency | null)[] }> {
    const seen: (Idempotency | null)[] = [];
    const launch = async (_caller: unknown, _input: unknown, idempotency: Idempotency | null) => {
      seen.push(idempotency);
      return { instanceId: 'notebook-1', operationId: 'notebook-1/1' };
    };
    return { api: await start({ instances: { launch, list: async () => ({ texts: [], totalEntries: 0 }) } }), seen };
  }

  test('reaches control with a hash that depends on the request, not on its formatting', async () => {
    const { api, seen } = await keysSeen();
    const { isSpotInstance: _default, ...withoutDefault } = launchRequest();
    const bodies = [
      launchRequest(),
      withoutDefault,
      Object.fromEntries(Object.entries(launchRequest()).toReversed()),
      { ...launchRequest(), unknown: 1, isSpotInstance: null },
      JSON.stringify(launchRequest(), null, 4),
      launchRequest({ name: 'another' }),
    ];
    const headers = { 'idempotency-key': 'key-1' };
    for (const body of bodies) expect((await api.post('/instance/create', body, { token, headers })).status).toBe(200);
    const hashes = seen.map((one) => one?.bodyHash);
    expect(seen[0]).toEqual({
      key: 'key-1',
      route: '/instance/create',
      bodyHash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(new Set(hashes.slice(0, 5)).size).toBe(1);
    expect(hashes[5]).not.toBe(hashes[0]);
  });

  test('is null when absent, is refused when not visible ASCII or too long, and is ignored where nothing is created', async () => {
    const { api, seen } = await keysSeen();
    await api.post('/instance/create', launchRequest(), { token });
    expect(seen).toEqual([null]);
    for (const key of ['', ' ', 'a b', 'x'.repeat(256), 'ä']) {
      const headers = { 'idempotency-key': key };
      const reply = await api.post('/instance/create', launchRequest(), { token, headers });
      expect(reply.status, key).toBe(400);
      expect(reply.json).toEqual({
        message: expect.stringContaining('"Idempotency-Key" must be 1 to 255 visible ASCII'),
      });
      const pager = { pager: { currentPage: 1, pageSize: 1 } };
      expect((await api.post('/instance/list', pager, { token, headers })).status).toBe(200);
    }
    expect(seen).toHaveLength(1);
    await api.post('/instance/create', launchRequest(), { token, headers: { 'idempotency-key': 'x'.repeat(255) } });
    expect(seen[1]?.key).toHaveLength(255);
  });
});

test('administrators reach their routes, with defaults filled in', async () => {
  const asked: unknown[] = [];
  const createUser = async (_caller: unknown, body: unknown) => {
    asked.push(body);
    return { userId: 'u', username: 'bob', email: '', group: ['user'] };
  };
  const api = await start({ access: { createUser } });
  const body = { username: 'bob', password: 'long enough' };
  expect((await api.post('/user/create', body, { token: ADMIN_TOKEN })).json).toMatchObject({ userId: 'u' });
  expect(asked).toEqual([{ ...body, email: '' }]);
});
