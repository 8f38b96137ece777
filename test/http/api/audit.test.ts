/** What the edge records in the audit log, and what never gets there. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import { exampleOf, type Json } from '../../../src/contract/examples.ts';
import { EXEC_PROTOCOL } from '../../../src/contract/exec.ts';
import { jsonRouteNames, jsonRouteOf } from '../../../src/contract/routes.ts';
import type { AuditRow } from '../../../src/store/tables/audit.ts';
import { ids } from './control-fixture.ts';
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

test('does not answer a change that could not be recorded', async () => {
  const { audit } = api.wired.control;
  const { record } = audit;
  audit.record = async () => {
    throw new Error('no space');
  };
  try {
    expect(await api.post('/user/key/create', { name: 'lost' }, { token: alice.token })).toMatchObject({
      status: 500,
    });
    expect(await api.post('/instance/stop', {}, { token: alice.token })).toMatchObject({ status: 400 });
  } finally {
    audit.record = record;
  }
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
