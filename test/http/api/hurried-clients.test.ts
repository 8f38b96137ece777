/** Requests of clients in a hurry: answered where that is safe, else refused with a remedy. */
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { routes } from '../../../src/contract/routes.ts';
import { startApi, startEdge, type Account, type TestApi } from './harness.ts';

let api: TestApi;
let alice: Account;
beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
});
afterAll(() => api.stop());

const PAGER = { pager: { currentPage: 1, pageSize: 10 } };

test.each(['//api/instance/list', '/api//instance/list', '/api/instance/list/', '/api/instance//list//'])(
  'answers %s as the path without empty segments',
  async (path) => {
    const headers = { 'content-type': 'application/json' };
    const reply = await api.send(path, { method: 'POST', token: alice.token, body: PAGER, headers });
    expect(reply.status).toBe(200);
    expect(reply.json).toMatchObject({ instances: [] });
    const put = await api.send(path, { method: 'PUT', token: alice.token });
    expect([put.status, put.headers['allow']]).toEqual([405, 'POST']);
  },
);

test('answers health checks with a final slash', async () => {
  for (const path of ['/healthz/', '//readyz']) expect((await api.send(path)).status).toBe(200);
});

test('opens a WebSocket at a path with a slash too many as without', async () => {
  const refusalAt = (path: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const query = 'instanceId=none&command=true';
      const socket = new WebSocket(`ws://127.0.0.1:${api.port}${path}?${query}`, routes.openExec.protocol, {
        headers: { authorization: `Bearer ${alice.token}` },
      });
      socket.on('unexpected-response', (_request, answer) => void text(answer).then(resolve, reject));
      socket.on('error', reject);
    });
  const refusal = await refusalAt('/api/instance/exec');
  expect(refusal).toContain('instance not found');
  expect(await refusalAt('/api//instance/exec/')).toBe(refusal);
});

test.each([
  ['POST', '/api/Instance/List', '/api/instance/list'],
  ['POST', '/instance/list', '/api/instance/list'],
  ['GET', '/API/balance', '/api/balance'],
])('names the route that %s %s is near to', async (method, path, near) => {
  const reply = await api.send(path, { method, token: alice.token });
  expect(reply.status).toBe(404);
  expect(reply.json).toEqual({
    message: `no route ${method} ${path}: GET /api/openapi.json lists all routes; did you mean ${near}?`,
  });
});

test('takes an API key as bearer with its own rights, and names the header for a token as X-API-Key', async () => {
  const { key } = await alice.client.createApiKey({ name: 'reads', scopes: ['account'] });
  const info = (headers: Record<string, string>) => api.post('/user/info', {}, { headers });
  const asBearer = { authorization: `Bearer ${key.fullKey}` };
  expect((await info(asBearer)).json).toMatchObject({ username: alice.username });
  expect((await api.post('/instance/list', PAGER, { headers: asBearer })).status).toBe(403);
  const swapped = await info({ 'x-api-key': alice.token });
  expect([swapped.status, swapped.json]).toEqual([
    401,
    {
      code: -1,
      message:
        'you are not logged in or the login expired: log in again (X-API-Key holds an access token: send it as "Authorization: Bearer <token>")',
    },
  ]);
  await alice.client.deleteApiKey({ id: key.id });
  expect((await info(asBearer)).status).toBe(401);
});

test.each([
  [{ pager: { currentPage: '1', pageSize: 10 } }, 'pager.currentPage', 'send 1 without quotation marks'],
  [{ pager: { currentPage: 'x', pageSize: 10 } }, 'pager.currentPage', 'send a number, not a string'],
  [{ pager: [] }, 'pager', 'send an object, not an array'],
])('says in a header what %j must be', async (body, path, hint) => {
  const reply = await api.post('/instance/list', body, { token: alice.token });
  expect(reply.json).toEqual({ message: `type mismatch for field "${path}"` });
  expect(reply.headers['x-error-hint']).toBe(hint);
});

test('says in a header what items and flags must be', async () => {
  const created = await api.post('/user/key/create', { name: 'k', scopes: [7] }, { token: alice.token });
  expect(created.headers['x-error-hint']).toBe('send a string, not a number');
});

test('serves all paths below the prefix of its URL, and without it', async () => {
  const behind = await startEdge(api.wired.control, { prefix: '/berth' });
  try {
    for (const path of ['/berth/healthz', '/healthz', '/berth//readyz/', '/berth', '/berth/'])
      expect([path, (await behind.send(path)).status]).toEqual([path, 200]);
    expect((await behind.send('/berthing/healthz')).status).toBe(404);
  } finally {
    await behind.stop();
  }
});
