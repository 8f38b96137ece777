import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, launchRequest, type Account, type TestApi } from './harness.ts';
import { GATEWAY_ORIGIN } from './control-fixture.ts';

const YEAR_SECONDS = 365 * 24 * 3_600;

let api: TestApi;
let alice: Account;
let instanceId: string;

beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
  ({ instanceId } = await alice.client.launch(launchRequest({ nodePorts: [8000, 8888] })));
});
afterAll(() => api.stop());

const urls = (port: number) => ({
  pathUrl: `${GATEWAY_ORIGIN}/forward/${instanceId}/${port}/`,
  hostUrl: `http://${port}-${instanceId}.gpu.test/`,
});
const onNodePort = expect.stringMatching(/this setting affects only the gateway: the port is also in nodePorts/);

test('lists each node port, set port and shared port with its access and address', async () => {
  const { client } = alice;
  const published = { access: 'public', isDefault: true, nodePort: null, note: onNodePort };
  const before = [
    { port: 8000, ...published, ...urls(8000) },
    { port: 8888, ...published, ...urls(8888) },
  ];
  expect(await client.listPorts({ instanceId })).toEqual({ instanceId, ports: before });
  expect(await client.setPortAccess({ instanceId, port: 8000, access: 'signedIn' })).toEqual({
    instanceId,
    port: { port: 8000, access: 'signedIn', isDefault: false, nodePort: null, note: onNodePort, ...urls(8000) },
  });
  const { port: own } = await client.setPortAccess({ instanceId, port: 9000, access: 'public' });
  expect(own).toEqual({ port: 9000, access: 'public', isDefault: false, nodePort: null, note: '', ...urls(9000) });
  const { shareId } = await client.sharePort({ instanceId, port: 7000, seconds: 60 });
  const { ports } = await client.listPorts({ instanceId });
  expect(ports.map(({ port, access, isDefault }) => [port, access, isDefault])).toEqual([
    [7000, 'owner', true],
    [8000, 'signedIn', false],
    [8888, 'public', true],
    [9000, 'public', false],
  ]);
  // Access to the notebook is not set by this route.
  expect(ports.find(({ port }) => port === 8888)?.note).toMatch(/\/notebook is always the owner’s/);
  await client.unsharePort({ instanceId, shareId });
  for (const port of [8000, 9000]) await client.setPortAccess({ instanceId, port, access: 'default' });
  expect((await client.listPorts({ instanceId })).ports).toEqual(before);
});

test('a port with the access loopback has no link, which would open nothing', async () => {
  const { client } = alice;
  const share = { instanceId, port: 9100, seconds: 60 };
  await client.setPortAccess({ instanceId, port: 9100, access: 'loopback' });
  await expect(client.sharePort(share)).rejects.toMatchObject({
    status: 409,
    message: expect.stringMatching(/port 9100 .*"loopback", which is for its owner alone.*choose another access/),
  });
  await client.setPortAccess({ instanceId, port: 9100, access: 'default' });
  const { shareId } = await client.sharePort(share);
  await client.unsharePort({ instanceId, shareId });
});

test("a link's token is returned once, listed without it, and gone when revoked", async () => {
  const { client } = alice;
  const beforeMs = Date.now();
  const made = await client.sharePort({ instanceId, port: 8000, seconds: YEAR_SECONDS, name: 'for Bob' });
  const { shareId, token, url, createdAtUnixMs, expiresAtUnixMs } = made;
  expect(made).toEqual({
    shareId,
    port: 8000,
    name: 'for Bob',
    url: `${urls(8000).pathUrl}?berth_share=${token}`,
    token,
    createdAtUnixMs,
    expiresAtUnixMs,
  });
  expect(url).toContain(token);
  expect(createdAtUnixMs).toBeGreaterThanOrEqual(beforeMs);
  expect(expiresAtUnixMs).toBe(createdAtUnixMs + YEAR_SECONDS * 1_000);
  const { shares } = await client.listShares({ instanceId });
  expect(shares).toEqual([{ shareId, port: 8000, name: 'for Bob', createdAtUnixMs, expiresAtUnixMs }]);
  await client.unsharePort({ instanceId, shareId });
  expect(await client.listShares({ instanceId })).toEqual({ shares: [] });
});

test('the same idempotency key makes one link, whose token is not returned again', async () => {
  const body = { instanceId, port: 8000, seconds: 60 };
  const options = { idempotencyKey: 'one-link' };
  const { shareId } = await alice.client.sharePort(body, options);
  await expect(alice.client.sharePort(body, options)).rejects.toMatchObject({ status: 409, code: 'not_now' });
  expect((await alice.client.listShares({ instanceId })).shares.map((one) => one.shareId)).toEqual([shareId]);
  const gone = { instanceId, shareId };
  await alice.client.unsharePort(gone, { idempotencyKey: 'off' });
  await alice.client.unsharePort(gone, { idempotencyKey: 'off' });
  await expect(alice.client.unsharePort(gone)).rejects.toMatchObject({ status: 404, code: 'not_found' });
});

test('refuses invalid ports and links with field, value and allowed values; nothing changes', async () => {
  const ports: [unknown, RegExp][] = [
    [0, /^field "port" is 0: it must be a whole number from 1 to 65535$/],
    [-1, /from 1 to 65535$/],
    [65_536, /^field "port" is 65536: it must be a whole number from 1 to 65535$/],
    [80.5, /whole number from 1 to 65535$/],
    [22, /^field "port" is 22: it must be another port: 22 is for ssh keys alone/],
    ['80', /^type mismatch for field "port"$/],
    [null, /^field "port" is not set$/],
  ];
  const access: [unknown, RegExp][] = [
    [
      'everybody',
      /^field "access" is "everybody": it must be one of "owner", "loopback", "signedIn", "public", "default"$/,
    ],
    ['Public', /must be one of "owner"/],
    ['', /must be one of "owner"/],
    [7, /^type mismatch for field "access"$/],
    [null, /^field "access" is not set$/],
  ];
  const seconds: [unknown, RegExp][] = [
    [0, /^field "seconds" is 0: it must be a whole number from 1 to 31536000$/],
    [-1, /from 1 to 31536000$/],
    [YEAR_SECONDS + 1, /^field "seconds" is 31536001: it must be a whole number from 1 to 31536000$/],
    [1.5, /whole number from 1 to 31536000$/],
    [1e12, /from 1 to 31536000$/],
    [1e308, /from 1 to 31536000$/],
    ['60', /^type mismatch for field "seconds"$/],
    [null, /^field "seconds" is not set$/],
  ];
  const names: [unknown, RegExp][] = [
    [
      'n'.repeat(300),
      /^field "name" is "n+"…: it must be 1 to 64 letters, digits, spaces, dots, dashes or underscores/,
    ],
    ['rocket 🚀', /^field "name" is "rocket 🚀": it must be 1 to 64 letters, digits/],
    ['', /must be 1 to 64 letters/],
    ['a\0b', /must be 1 to 64 letters/],
    [7, /^type mismatch for field "name"$/],
  ];
  const good = { instanceId, port: 8000 };
  const tries = [
    ...ports.map(([port, words]) => ['/access', { ...good, access: 'public', port }, words] as const),
    ...access.map(([one, words]) => ['/access', { ...good, access: one }, words] as const),
    ...ports.map(([port, words]) => ['/share', { ...good, seconds: 60, port }, words] as const),
    ...seconds.map(([one, words]) => ['/share', { ...good, seconds: one }, words] as const),
    ...names.map(([name, words]) => ['/share', { ...good, seconds: 60, name }, words] as const),
  ];
  const before = await alice.client.listPorts({ instanceId });
  for (const [route, body, words] of tries) {
    const reply = await api.post(`/instance/port${route}`, body, { token: alice.token });
    expect(reply.status, JSON.stringify(body)).toBe(400);
    expect(reply.json).toMatchObject({ message: expect.stringMatching(words) });
  }
  expect(await alice.client.listPorts({ instanceId })).toEqual(before);
  expect(await alice.client.listShares({ instanceId })).toEqual({ shares: [] });
});

test("answers for another account's instance as for an unknown one", async () => {
  const mallory = await api.newAccount();
  const { shareId } = await alice.client.sharePort({ instanceId, port: 8000, seconds: 60 });
  const routes: [string, object][] = [
    ['/access', { port: 8000, access: 'public' }],
    ['/list', {}],
    ['/share', { port: 8000, seconds: 60 }],
    ['/shares', {}],
    ['/unshare', { shareId }],
  ];
  for (const [route, body] of routes) {
    for (const id of [instanceId, 'notebook-00000000-0000-4000-8000-000000000000']) {
      const reply = await api.post(`/instance/port${route}`, { instanceId: id, ...body }, { token: mallory.token });
      expect([route, reply.status]).toEqual([route, 404]);
      expect(reply.json).toMatchObject({ message: 'ent: instance not found' });
    }
  }
  // A link can't be revoked through another instance.
  const { instanceId: own } = await mallory.client.launch(launchRequest());
  await expect(mallory.client.unsharePort({ instanceId: own, shareId })).rejects.toMatchObject({ status: 404 });
  expect((await alice.client.listShares({ instanceId })).shares).toHaveLength(1);
});

test('lists and ends sessions of the gateway', async () => {
  const { client } = alice;
  expect(await client.listSessions()).toEqual({ sessions: [] });
  const { url } = await client.open({ instanceId });
  const redeemed = await api.wired.control.forwarding.redeem(new URL(url).searchParams.get('key') ?? '', {
    address: '',
    userAgent: '',
  });
  const { sessions } = await client.listSessions();
  expect(sessions).toEqual([
    {
      id: expect.any(String),
      instanceId,
      openedAtUnixMs: expect.any(Number),
      lastUsedAtUnixMs: sessions[0]?.openedAtUnixMs,
      from: 'login',
    },
  ]);
  await client.revokeSession({ id: sessions[0]?.id ?? '' });
  expect(await client.listSessions()).toEqual({ sessions: [] });
  expect(await api.wired.control.forwarding.session(redeemed?.session ?? '')).toBeNull();
});
