/** Unknown members: named by routes of docs/interface.md, refused by all others. */
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exampleOf } from '../../../src/contract/examples.ts';
import { isOfInterface } from '../../../src/contract/route.ts';
import { BASE_PATH, routeNames, routeOf, type RouteName } from '../../../src/contract/routes.ts';
import { ADMIN_TOKEN, fakeControl, GOOD_TOKEN } from './fake-control.ts';
import { launchRequest, startApi, startEdge, type BareApi, type Reply, type TestApi } from './harness.ts';

const HEADER = 'x-ignored-fields';
const pager = { currentPage: 1, pageSize: 10 };

let edge: BareApi;
let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  edge = await startEdge(
    fakeControl({
      instances: {
        launch: async () => ({ instanceId: 'notebook-1', operationId: 'notebook-1/1' }),
        list: async () => ({ texts: [], totalEntries: 0 }),
      },
    }),
  );
});
afterAll(() => Promise.all([api.stop(), edge.stop()]));

/** A valid request with one more member. */
function ask(name: RouteName): Promise<Reply> {
  const route = routeOf(name);
  const path = BASE_PATH + route.path.replace('{id}', 'v').replace('{path}', 'a');
  const sent = { method: route.method, token: ADMIN_TOKEN };
  if (route.kind !== 'json') return edge.send(`${path}?sunshine=1`, sent);
  return edge.send(path, { ...sent, body: { ...Object(exampleOf(route.body)), sunshine: 1 } });
}

test('routes of the interface are those that docs/interface.md names', async () => {
  const page = await readFile(new URL('../../../docs/interface.md', import.meta.url), 'utf8');
  const unnamed = routeNames.filter(
    (name) =>
      isOfInterface(routeOf(name)) &&
      !page.includes(`${routeOf(name).path}\``) &&
      !page.includes(`${routeOf(name).path} `),
  );
  expect(unnamed).toEqual([]);
});

test('every route of the interface names an unknown member, whatever the answer is; every other route refuses it', async () => {
  const wrong: string[] = [];
  for (const name of routeNames) {
    const route = routeOf(name);
    const reply = await ask(name);
    const named = reply.headers[HEADER];
    const isRefused =
      reply.status === 400 &&
      reply.headers['x-error-code'] === 'field_value' &&
      (route.method === 'HEAD' || reply.text.includes('field \\"sunshine\\" is not a field of this request; it has '));
    const isRight = isOfInterface(route)
      ? named === (route.method === 'GET' ? undefined : 'sunshine') && !isRefused
      : named === undefined && isRefused;
    if (!isRight) wrong.push(`${name}: ${reply.status} ${String(named)} ${reply.text}`);
  }
  expect(wrong).toEqual([]);
});

test('names ignored members by sorted, encoded paths, also in a refusal', async () => {
  const [{ remoteStorages: _none, ...launch }, mount] = [
    launchRequest(),
    { mountPath: '/root/x', remoteStorageName: 'v', remoteStorageId: 'id', type: 'filesystem' },
  ];
  const body = {
    ...launch,
    zone: 'a',
    Zone: 'b',
    'a, b\r\nc: "ü.\ud800"': 1,
    constructor: 1,
    billing: { ...launch.billing, currency: 'dollar' },
    environment: { ANY: 'x' },
    remoteStorages: [mount, { ...mount, readOnly: true }],
  };
  const paths =
    'Zone, a%2C%20b%0D%0Ac%3A%20%22%C3%BC%2E%EF%BF%BD%22, billing.currency, constructor, remoteStorages[1].readOnly, zone';
  const reply = await edge.post('/instance/create', body, { token: GOOD_TOKEN });
  expect([reply.status, reply.headers[HEADER]]).toEqual([200, paths]);
  const refused = await edge.post('/instance/create', { ...body, name: '' }, { token: GOOD_TOKEN });
  expect([refused.status, refused.headers[HEADER]]).toEqual([400, paths]);
  const text = `{"pager":${JSON.stringify(pager)},"__proto__":{"x":1}}`;
  expect((await edge.post('/instance/list', text, { token: GOOD_TOKEN })).headers[HEADER]).toBe('__proto__');
});

test('bounds the header by names, by length of a name and by length in all', async () => {
  const named = async (names: string[]): Promise<string> => {
    const body = { pager, ...Object.fromEntries(names.map((name) => [name, 1])) };
    const reply = await edge.post('/instance/list', body, { token: GOOD_TOKEN });
    expect(reply.status).toBe(200);
    return String(reply.headers[HEADER]);
  };
  const twenty = Array.from({ length: 20 }, (_, n) => `m${String(n).padStart(2, '0')}`);
  expect(await named(twenty)).toBe(twenty.join(', '));
  expect(await named([...twenty, 'more'])).toBe(`${twenty.join(', ')}, ...`);
  expect(await named(['x'.repeat(65)])).toBe(`${'x'.repeat(64)}...`);
  const long = await named(Array.from({ length: 20 }, (_, n) => 'ü'.repeat(60) + n));
  expect(long.length).toBeLessThan(1_100);
  expect(long).toMatch(/, \.\.\.$/);
  const many = Array.from({ length: 3_900 }, (_, n) => `m${n}`);
  expect((await named(many)).split(', ')).toHaveLength(21);
});

test('refuses by name, with the nearest field or all fields, and changes nothing', async () => {
  const message = async (route: string, body: object): Promise<unknown> => {
    const { status, json } = await api.post(route, body, { token: api.admin.token });
    return [status, Object(json).message];
  };
  const { username, password: oldPassword } = api.admin;
  const change = { username: 'bob', oldPassword, newPassword: 'a password of bob' };
  expect(await message('/user/password', change)).toEqual([
    400,
    'field "username" is not a field of this request; it has "oldPassword", "newPassword"',
  ]);
  expect((await api.post('/user/login', { username, password: oldPassword })).status).toBe(200);
  for (const [route, body, text] of [
    [
      '/instance/get',
      { instanceID: 'x' },
      'field "instanceID" is not a field of this request; did you mean "instanceId"?',
    ],
    ['/user/session/list', { pager }, 'field "pager" is not a field of this request; it has no fields'],
    [
      '/operation/list',
      { instanceId: 'x', pager: { ...pager, page: 1 } },
      'field "pager.page" is not a field of this request; "pager" has "currentPage", "pageSize"',
    ],
    [
      '/storage/snapshot/list',
      { pager: { ...pager, pagesize: 5 } },
      'field "pager.pagesize" is not a field of this request; did you mean "pager.pageSize"?',
    ],
    [
      '/user/environment/set',
      { environment: { ANY: 'x' }, 'a\n"b"': 1 },
      'field "a\\n\\"b\\"" is not a field of this request; it has "environment", "secrets"',
    ],
  ] as const)
    expect(await message(route, body)).toEqual([400, text]);
});

test.each([
  ['scope', 'scopes'],
  ['Scopes', 'scopes'],
  ['expires', 'expiresAtUnixMs'],
  ['expiry', 'expiresAtUnixMs'],
  ['expiresAtUnixMS', 'expiresAtUnixMs'],
  ['address', 'addresses'],
  ['adresses', 'addresses'],
])('creates no API key without the limit that "%s" was meant to be', async (given, meant) => {
  const { token } = api.admin;
  const reply = await api.post('/user/key/create', { name: 'ci', [given]: ['read'] }, { token });
  expect([reply.status, Object(reply.json).message]).toEqual([
    400,
    `field "${given}" is not a field of this request; did you mean "${meant}"?`,
  ]);
  expect(Object((await api.post('/user/key/list', {}, { token })).json).keys).toEqual([]);
});

test('creates an API key with members that are no misspelled limits', async () => {
  const body = { name: 'ci', Name: 'x', description: 'x', type: 'x', ipList: [] };
  const reply = await api.post('/user/key/create', body, { token: api.admin.token });
  expect([reply.status, reply.headers[HEADER]]).toEqual([200, 'Name, description, ipList, type']);
});
