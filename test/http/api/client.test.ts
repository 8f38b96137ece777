/** The typed client against the real server, and against servers with invalid answers. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ApiError, makeClient } from '../../../src/contract/client.ts';
import { routeNames } from '../../../src/contract/routes.ts';
import type { Idempotency } from '../../../src/control/index.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';
import type { BareApi, TestApi } from './harness.ts';
import { startApi, startEdge, launchRequest } from './harness.ts';
import { ids } from './control-fixture.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const edges: BareApi[] = [];
afterEach(async () => {
  for (const edge of edges.splice(0)) await edge.stop();
});

const page = { pager: { currentPage: 1, pageSize: 10 } };

test('has a method for every route of the table, and one for downloads of logs', () => {
  const methods = [...routeNames.filter((name) => name !== 'headFile'), 'downloadLog'];
  expect(Object.keys(makeClient({ baseUrl: '' })).toSorted()).toEqual(methods.toSorted());
});

test('the answer of each route matches the contract', async () => {
  const { client, username } = await api.newAccount();
  expect(await client.userInfo()).toMatchObject({ username, group: ['user'] });
  expect((await client.balance()).balance).toBe(100_000);
  expect((await client.listRegions()).regions.map(({ regionId }) => regionId)).toEqual([ids.region]);
  expect((await client.listImages(page)).images.map(({ imageId }) => imageId)).toEqual([ids.image]);
  expect((await client.catalog()).instanceInfos[0]?.regionInfos[0]?.regionId).toBe(ids.region);

  const { key } = await client.createApiKey({ name: 'ci' });
  const byKey = makeClient({ baseUrl: api.baseUrl, credential: { kind: 'apiKey', key: key.fullKey } });
  expect((await byKey.listApiKeys()).keys).toMatchObject([
    { id: key.id, name: 'ci', lastFour: key.fullKey.slice(-4), createdAt: expect.any(Number), scopes: null },
  ]);
  const { volume } = await byKey.createVolume({ name: 'v', sizeGB: 1, region: ids.region, volumeType: 'filesystem' });
  const { instanceId } = await byKey.launch(launchRequest());
  expect((await byKey.open({ instanceId })).url).toMatch(/^http/);
  expect(await byKey.terminate({ instanceId })).toEqual({ instanceId });
  expect(await byKey.deleteVolume({ id: volume.id })).toEqual({ id: volume.id });
  expect(await byKey.listSshKeys()).toEqual({ sshKeys: [] });
  await client.deleteApiKey({ id: key.id });
  await expect(byKey.userInfo()).rejects.toMatchObject({ status: 401, code: 'not_logged_in' });
});

test('a refusal is an ApiError with status, code, message and request id', async () => {
  const { client } = await api.newAccount();
  const error = await client.stop({ instanceId: 'notebook-nobody' }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({
    status: 404,
    code: 'not_found',
    message: 'ent: instance not found',
    requestId: expect.stringMatching(/./),
  });
});

test('the same call sent twice under one key launches once; another request under the key is refused', async () => {
  const { client } = await api.newAccount();
  const again = { idempotencyKey: 'the-same' };
  const first = await client.launch(launchRequest(), again);
  expect(await client.launch(launchRequest(), again)).toEqual(first);
  await expect(client.launch(launchRequest({ name: 'other' }), again)).rejects.toMatchObject({
    status: 422,
    code: 'idempotency_mismatch',
  });
  expect((await client.listInstances(page)).pager.totalEntries).toBe(1);
});

test('every creating call carries a new idempotency key', async () => {
  const keys: (Idempotency | null)[] = [];
  const launch = async (_caller: unknown, _input: unknown, key: Idempotency | null) => {
    keys.push(key);
    return { instanceId: 'notebook-1', operationId: 'notebook-1/1' };
  };
  const edge = await startEdge(fakeControl({ instances: { launch } }));
  edges.push(edge);
  const client = makeClient({ baseUrl: edge.baseUrl, credential: () => ({ kind: 'token', token: GOOD_TOKEN }) });
  await client.launch(launchRequest());
  await client.launch(launchRequest());
  expect(keys.map((one) => one?.key)).toEqual([
    expect.stringMatching(/^[0-9a-f]{32}$/),
    expect.stringMatching(/^[0-9a-f]{32}$/),
  ]);
  expect(keys[0]?.key).not.toBe(keys[1]?.key);
});

test('a call can be aborted, and an unreachable server is named in the error', async () => {
  const { client, token } = await api.newAccount();
  const giveUp = AbortSignal.abort(new Error('enough'));
  await expect(client.listInstances(page, { signal: giveUp })).rejects.toThrow('enough');
  const edge = await startEdge(fakeControl());
  await edge.stop();
  const away = makeClient({ baseUrl: edge.baseUrl, credential: { kind: 'token', token } });
  await expect(away.userInfo()).rejects.toMatchObject({ name: 'ApiError', status: 0, code: 'unreachable' });
});

test('drops unknown members of a newer server; an invalid answer is an error, not a partial answer', async () => {
  const answering = (body: string, status = 200, headers: Record<string, string> = {}) =>
    makeClient({ baseUrl: 'http://server.test/api', fetch: async () => new Response(body, { status, headers }) });
  const info = { userId: 'u', username: 'n', email: '', group: ['user'] };
  expect(await answering(JSON.stringify({ ...info, newer: { x: 1 } })).userInfo()).toEqual(info);
  for (const body of ['<html>', '', 'null', '[]', JSON.stringify({ ...info, group: 'user' })]) {
    await expect(answering(body).userInfo()).rejects.toMatchObject({ status: 200, code: 'unreadable' });
  }
  await expect(
    answering('{"message":"wait"}', 429, { 'x-error-code': 'too_many_requests', 'retry-after': '7' }).userInfo(),
  ).rejects.toMatchObject({ status: 429, code: 'too_many_requests', message: 'wait', retryAfterS: 7 });
});

test.each([
  [413, {}, 'proxy', /^a proxy in front of the server refused the body as too large/],
  [502, { 'retry-after': '3' }, 'proxy', /^a proxy in front of the server did not reach it \(502\)/],
  [403, {}, 'proxy', /^a proxy in front of the server answered 403 instead of it$/],
  [500, { 'x-request-id': 'r' }, 'unreadable', /^the server answered 500 without a message$/],
  [413, { 'x-error-code': 'body_too_large' }, 'body_too_large', /^the server answered 413 without a message$/],
])('tells who answered %i with %j', async (status, headers, code, message) => {
  const client = makeClient({
    baseUrl: 'http://server.test/api',
    fetch: async () => new Response('<html>', { status, headers }),
  });
  await expect(client.userInfo()).rejects.toMatchObject({ status, code, message: expect.stringMatching(message) });
});
