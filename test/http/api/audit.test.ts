/** What the edge records in the audit log, and what never gets there. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import WebSocket from 'ws';
import { sql } from 'kysely';
import fastify, { type FastifyInstance } from 'fastify';
import { exampleOf, type Json } from '../../../src/contract/examples.ts';
import { EXEC_PROTOCOL } from '../../../src/contract/compute/exec.ts';
import { jsonRouteNames, jsonRouteOf, routeNames, routeOf, type RouteName } from '../../../src/contract/routes.ts';
import { makeApi } from '../../../src/edge/http/api.ts';
import { mountAudit } from '../../../src/edge/http/audit-hook.ts';
import { CLEAR_PATH } from '../../../src/edge/full-cookies.ts';
import { SIGN_ON_PATHS } from '../../../src/edge/http/access/single-sign-on.ts';
import type { AuditRow } from '../../../src/store/tables/audit.ts';
import { ids } from './control-fixture.ts';
import { fakeCaller, fakeControl } from './fake-control.ts';
import { launchRequest, startApi, type Account, type TestApi } from './harness.ts';

let api: TestApi;
let alice: Account;
let aliceId: string;
let instanceId: string;

beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
  ({ userId: aliceId } = await alice.client.userInfo({}));
  ({ instanceId } = await alice.client.launch(launchRequest()));
});
afterAll(() => api.stop());

/** Records that the requests in `act` leave. */
async function recorded(act: () => Promise<unknown>): Promise<AuditRow[]> {
  const before = (await api.wired.audited()).length;
  await act();
  return (await api.wired.audited()).slice(before);
}

test('records who changed what, from where, with which credential', async () => {
  const agent = { 'user-agent': 'x'.repeat(300), 'x-request-id': 'my-request' };
  const [first, ...more] = await recorded(() =>
    api.post('/instance/stop', { instanceId }, { token: alice.token, headers: agent }),
  );
  expect(more).toEqual([]);
  expect(first).toMatchObject({
    accountId: aliceId,
    username: alice.username,
    credential: 'login',
    credentialId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    address: '127.0.0.1',
    userAgent: 'x'.repeat(200),
    route: 'stop',
    subjects: JSON.stringify([instanceId]),
    outcome: 'ok',
    requestId: 'my-request',
  });
});

test('records an API key by its id, and the ids of new resources', async () => {
  const { key } = await alice.client.createApiKey({ name: 'ci' });
  const volume = { name: 'data', sizeGB: 1, region: ids.region, volumeType: 'filesystem' };
  const made: string[] = [];
  const [record] = await recorded(async () => {
    const reply = await api.post('/storage/volume/create', volume, { headers: { 'x-api-key': key.fullKey } });
    made.push(...(/[0-9a-f-]{36}/.exec(reply.text) ?? []));
  });
  expect(record).toMatchObject({ credential: 'apiKey', credentialId: key.id, route: 'createVolume' });
  expect(record?.subjects).toContain(made[0]);
});

test('records refusals with their code, and who asked', async () => {
  const records = await recorded(async () => {
    await api.post('/instance/stop', { instanceId: `notebook-${ids.region}` }, { token: alice.token });
    await api.post('/instance/stop', {}, { token: alice.token });
    await api.post('/admin/task/list', {}, { token: alice.token });
    await api.post('/instance/stop', { instanceId }, { token: 'forged' });
  });
  expect(records[0]?.subjects).toBe(JSON.stringify([`notebook-${ids.region}`]));
  expect(records.map(({ route, outcome, username }) => [route, outcome, username])).toEqual([
    ['stop', 'not_found', alice.username],
    ['stop', 'field_missing', alice.username],
    ['listTasks', 'forbidden', alice.username],
    ['stop', 'not_logged_in', ''],
  ]);
});

test('records reads that need a role, and no other reads', async () => {
  const records = await recorded(async () => {
    await api.post('/admin/task/list', {}, { token: api.admin.token });
    await alice.client.listInstances({ pager: { currentPage: 1, pageSize: 10 } });
    await api.send('/api/events', { token: 'forged' });
  });
  expect(records.map(({ route, outcome }) => [route, outcome])).toEqual([['listTasks', 'ok']]);
});

test('records logins, failed ones by account without the name that was typed, and the login page', async () => {
  const to = `/notebook/${instanceId}/lab`;
  const form = { 'content-type': 'application/x-www-form-urlencoded', origin: api.origin };
  const submit = (fields: Record<string, string>) =>
    api.send('/login', { method: 'POST', headers: form, body: new URLSearchParams({ to, ...fields }).toString() });
  const { username, password } = alice;
  const records = await recorded(async () => {
    await api.post('/user/login', { username, password });
    await api.post('/user/login', { username, password: 'wrong one' });
    await api.post('/user/login', { username: 'typed-password', password: 'wrong one' });
    await submit({ username, password });
    await submit({ username, password: 'wrong one' });
  });
  expect(
    records.map(({ route, outcome, username: name, accountId, credentialId }) => [
      route,
      outcome,
      name,
      accountId,
      credentialId !== '',
    ]),
  ).toEqual([
    ['login', 'ok', username, aliceId, true],
    ['login', 'not_logged_in', username, aliceId, false],
    ['login', 'not_logged_in', '', '', false],
    ['loginPage', 'ok', username, aliceId, true],
    ['loginPage', 'not_logged_in', username, aliceId, false],
  ]);
  expect(records[3]?.subjects).toBe(JSON.stringify([instanceId]));
  expect(JSON.stringify(records)).not.toMatch(/typed-password|wrong one/);
});

test('records commands over a WebSocket, uploads and deleted files', async () => {
  const id = '00000000-0000-4000-8000-000000000000';
  const records = await recorded(async () => {
    const socket = new WebSocket(
      `${api.origin.replace('http', 'ws')}/api/instance/exec?instanceId=${instanceId}&command=true`,
      EXEC_PROTOCOL,
      {
        headers: { authorization: `Bearer ${alice.token}` },
      },
    );
    await new Promise((resolve) => socket.once('unexpected-response', resolve).once('error', resolve));
    await api.send(`/api/storage/volume/${id}/files/secret-name`, { method: 'PUT', body: 'x', token: alice.token });
    await api.send(`/api/storage/volume/${id}/files/secret-name`, { method: 'DELETE', token: alice.token });
    await api.send(`/api/storage/volume/${id}/files/secret-name`, { token: alice.token });
  });
  expect(records.map(({ route, subjects }) => [route, subjects])).toEqual([
    ['openExec', JSON.stringify([instanceId])],
    ['uploadFile', JSON.stringify([id])],
    ['deleteFile', JSON.stringify([id])],
  ]);
  expect(JSON.stringify(records)).not.toContain('secret-name');
});

test('records passwords that a link sets, accounts of the page, and their refusals', async () => {
  const { url, accountId } = await api.admin.client.inviteAccount({ username: 'dora' });
  const token = new URL(url).searchParams.get('token') ?? '';
  const form = { 'content-type': 'application/x-www-form-urlencoded', origin: api.origin };
  const submit = (path: string, fields: Record<string, string>) =>
    api.send(path, { method: 'POST', headers: form, body: new URLSearchParams(fields).toString() });
  const password = 'seven green bottles';
  const records = await recorded(async () => {
    await submit('/password', { token, password, repeated: `${password}s` });
    await submit('/password', { token, password, repeated: password });
    await submit('/password', { token, password, repeated: password });
    await submit('/register', { username: 'typed-name', password, repeated: password });
  });
  expect(records.map(({ route, outcome, credential, accountId: who }) => [route, outcome, credential, who])).toEqual([
    ['passwordPage', 'field_value', 'link', accountId],
    ['passwordPage', 'ok', 'link', accountId],
    ['passwordPage', 'not_found', 'none', ''],
    ['registerPage', 'forbidden', 'none', ''],
  ]);
  expect(JSON.stringify(records)).not.toMatch(new RegExp(`${token}|typed-name|bottles`));
});

test('records what a link of the gateway opens, and the account', async () => {
  const { url } = await alice.client.open({ instanceId });
  const key = new URL(url).searchParams.get('key') ?? '';
  const { forwarding } = api.wired.control;
  const visitor = { address: '192.0.2.7', userAgent: 'browser' };
  const records = await recorded(async () => {
    await forwarding.redeem(key, visitor);
    await forwarding.redeem(key, visitor);
  });
  expect(records).toMatchObject([
    { route: 'gatewayOpen', outcome: 'ok', credential: 'link', username: alice.username, address: '192.0.2.7' },
    { route: 'gatewayOpen', outcome: 'not_found', username: '', userAgent: 'browser' },
  ]);
  expect(JSON.stringify(records)).not.toContain(key);
});

test('records logins at the ssh server of instances, with the key and their own time', async () => {
  const at = { instanceId, address: '192.0.2.7', program: 'SSH-2.0-OpenSSH_9.2', atMs: 1_700_000_000_000 };
  const { recordSshLogin } = api.wired.control.forwarding;
  const account = { accountId: aliceId, username: alice.username };
  const records = await recorded(async () => {
    await recordSshLogin({ ...at, account, fingerprint: 'SHA256:abc' });
    await recordSshLogin({ ...at, account: null, fingerprint: '' });
  });
  const subjects = JSON.stringify([instanceId]);
  const common = { route: 'sshLogin', subjects, address: at.address, userAgent: at.program, atMs: at.atMs };
  expect(records).toMatchObject([
    { ...common, outcome: 'ok', ...account, credential: 'sshKey', credentialId: 'SHA256:abc' },
    { ...common, outcome: 'not_logged_in', accountId: '', username: '', credential: 'none' },
  ]);
});

test('changes no row in a read of any route', async () => {
  const { store } = api.wired;
  const contents = async () => {
    const tables = (await store.read.introspection.getTables()).map(({ name }) => name as 'account');
    const rows = tables
      .filter((name) => !name.startsWith('audit'))
      .map(async (name) => {
        const { rows: all } = await sql`select * from ${sql.table(name)}`.execute(store.read);
        return [name, JSON.stringify(all, (key, value: unknown) => (key === 'lastUsedAtMs' ? 0 : value))];
      });
    return Object.fromEntries(await Promise.all(rows));
  };
  const before = await contents();
  const statuses = new Map<number, number>();
  for (const name of jsonRouteNames) {
    const route = jsonRouteOf(name);
    if (!route.reads) continue;
    const token = route.who === 'account' ? alice.token : api.admin.token;
    const own = { instanceId, accountId: aliceId };
    const example = exampleOf(route.body);
    const body = Object.fromEntries(
      Object.entries(typeof example === 'object' ? (example ?? {}) : {}).map(([field, value]) => [
        field,
        field in own ? own[field as keyof typeof own] : value,
      ]),
    );
    const headers = { 'content-type': 'application/json' };
    const { status } = await api.send(`/api${route.path}`, { method: route.method, token, headers, body });
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  expect(statuses.get(200)).toBeGreaterThan(25);
  expect(await contents()).toEqual(before);
});

test('lists records for administrators alone', async () => {
  const pager = { currentPage: 1, pageSize: 2 };
  await api.wired.audited();
  const { records } = await api.admin.client.listAudit({ pager, accountId: aliceId, route: 'stop' });
  expect(records).toHaveLength(2);
  expect(records.every(({ route, accountId }) => route === 'stop' && accountId === aliceId)).toBe(true);
  expect((await api.post('/admin/audit/list', { pager }, { token: alice.token })).status).toBe(403);
});

test('lists without requests that only read, but with their refusals', async () => {
  await api.admin.client.fleet();
  expect((await api.post('/admin/fleet', {}, { token: alice.token })).status).toBe(403);
  await alice.client.updateInstance({ instanceId, name: 'changed' });
  await api.wired.audited();
  const list = async (withoutReads: boolean) => {
    const pager = { currentPage: 1, pageSize: 500 };
    const { records } = await api.admin.client.listAudit({ pager, withoutReads });
    return records.map(({ route, outcome }) => `${route} ${outcome}`);
  };
  expect(await list(false)).toEqual(expect.arrayContaining(['fleet ok', 'fleet forbidden', 'updateInstance ok']));
  const changes = await list(true);
  expect(changes).toEqual(expect.arrayContaining(['fleet forbidden', 'updateInstance ok']));
  expect(changes).not.toContain('fleet ok');
});

test('answers what was done although its record cannot be stored, and says so at /readyz', async () => {
  const own = await startApi();
  onTestFinished(() => own.stop());
  const ann = await own.newAccount();
  await own.wired.store.write((tx) => tx.schema.dropTable('auditPending').execute());
  expect(await own.post('/user/key/create', { name: 'one' }, { token: ann.token })).toMatchObject({ status: 200 });
  expect(await own.post('/user/key/create', { name: 'two' }, { token: ann.token })).toMatchObject({ status: 200 });
  expect(await own.post('/instance/stop', {}, { token: ann.token })).toMatchObject({ status: 400 });
  expect((await ann.client.listApiKeys({})).keys.map(({ name }) => name).toSorted()).toEqual(['one', 'two']);
  expect((await own.send('/readyz')).json).toMatchObject({
    ready: true,
    status: 'degraded',
    text: expect.stringContaining('3 records of the audit log wait to be stored'),
  });
});

/** Reads the tree of `printRoutes`, whose lines have a part of the path and its methods. */
function registeredRoutes(app: FastifyInstance): { path: string; methods: string[] }[] {
  const parents: string[] = [];
  return app
    .printRoutes()
    .split('\n')
    .flatMap((line) => {
      const [, indent = '', part = '', methods] = /^([│ ]*)[├└]── (.*?)(?: \(([A-Z, ]+)\))?$/.exec(line) ?? [];
      const depth = indent.length / 4;
      parents.splice(depth, Infinity, part);
      return methods === undefined ? [] : [{ path: parents.join(''), methods: methods.split(', ') }];
    });
}

test('records each request of each route that may change something, and no read of an account', async () => {
  const routesOf = new Map<string, string>();
  const app = makeApi({
    control: fakeControl({
      access: { authenticate: async () => ({ ...fakeCaller, roles: ['user', 'operator', 'admin'] }) },
      audit: { record: async ({ route, requestId }) => void routesOf.set(requestId, route) },
    }),
    log: { warn() {}, error() {} },
    version: '',
    gatewayOrigin: 'http://gateway.test',
    secureCookies: false,
  });
  onTestFinished(() => app.close());
  await app.ready();
  const rows = new Map(routeNames.map((name) => [`${routeOf(name).method} ${pathIn(name)}`, name]));
  const found: string[] = [];
  for (const { path, methods } of registeredRoutes(app))
    for (const method of methods) {
      const name = rows.get(`${method} ${path}`);
      const requestId = `${found.length}`;
      const headers = { host: 'localhost', authorization: 'Bearer x', 'x-request-id': requestId };
      const request = { method, url: path.replace(':id', 'x').replace('*', 'x'), headers };
      await app.inject({ ...request, method: method as 'GET' });
      found.push(`${method} ${path}`);
      const isRead = name === undefined ? ['GET', 'HEAD'].includes(method) || path === CLEAR_PATH : routeOf(name).reads;
      const needsRole = name !== undefined && ['operator', 'admin'].includes(routeOf(name).who);
      const recordedAs = routesOf.get(requestId);
      if (path === SIGN_ON_PATHS.callback) expect(recordedAs).toBe('signOn');
      else if (isRead && !needsRole) expect([method, path, recordedAs]).toEqual([method, path, undefined]);
      else expect([method, path, recordedAs]).toEqual([method, path, name ?? expect.any(String)]);
    }
  expect(found).toEqual(expect.arrayContaining([...rows.keys(), 'POST /login', 'POST /password', 'POST /register']));
});

const pathIn = (name: RouteName): string => `/api${routeOf(name).path}`.replace('{id}', ':id').replace('{path}', '*');

test('refuses to mount a route that may change something without its name in the audit log', () => {
  const app = fastify();
  mountAudit(app, { audit: { record: async () => {} } });
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const)
    expect(() => app.route({ method, url: '/new', handler: async () => '' })).toThrow(/config.audited/);
  app.get('/read', async () => '');
  app.post('/search', { config: { audited: null } }, async () => '');
});

/** Fields whose text is public: names, addresses and references that lists show. */
const PUBLIC = /^(name|username|email|ref|server|mountPath|path|type|title|labels|url|reason)$|Name$/;

test('keeps secrets in no field of any route out of the audit log, the events and the program log', async () => {
  const logged = api.logged.length;
  const planted: { secret: string; field: string }[] = [];
  const plant = (given: Json, path: string[]): { at: string[]; body: (text: string) => Json }[] => {
    if (typeof given === 'string') return [{ at: path, body: (text) => text }];
    if (Array.isArray(given))
      return given.flatMap((item, n) =>
        plant(item, path).map(({ at, body }) => ({ at, body: (text: string) => given.with(n, body(text)) })),
      );
    if (typeof given !== 'object' || given === null) return [];
    return Object.entries(given).flatMap(([name, value]) =>
      plant(value, [...path, name]).map(({ at, body }) => ({
        at,
        body: (text: string) => ({ ...given, [name]: body(text) }),
      })),
    );
  };
  for (const name of jsonRouteNames) {
    const route = jsonRouteOf(name);
    if (name === 'logout') continue;
    for (const { at, body } of plant(exampleOf(route.body), [])) {
      const secret = `planted-${planted.length}-plum7tree`;
      planted.push({ secret, field: at.join('.') });
      const { token } = route.who === 'account' ? alice : api.admin;
      await api.send(`/api${route.path}`, {
        method: route.method,
        token,
        headers: { 'content-type': 'application/json' },
        body: body(secret),
      });
    }
  }
  expect(planted.length).toBeGreaterThan(60);
  const audited = JSON.stringify(await api.wired.audited());
  expect(planted.filter(({ secret }) => audited.includes(secret))).toEqual([]);
  const events = JSON.stringify(await api.wired.store.read.selectFrom('event').selectAll().execute());
  const log = JSON.stringify(api.logged.slice(logged));
  const shown = planted.filter(({ secret }) => events.includes(secret) || log.includes(secret));
  expect(shown.filter(({ field }) => !PUBLIC.test(field.split('.').at(-1) ?? ''))).toEqual([]);
});
