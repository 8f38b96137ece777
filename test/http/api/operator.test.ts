/** Lists and actions of operators over HTTP. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADMIN_TOKEN, fakeControl, GOOD_TOKEN } from './fake-control.ts';
import { startEdge, type BareApi } from './harness.ts';

const given: unknown[] = [];
const act = async (_caller: unknown, body: { instanceId: string; reason: string }, ...more: unknown[]) => {
  given.push(body, ...more);
  return { instanceId: body.instanceId, operationId: 'of another account' };
};
const rows = [{ ownerId: 'a', ownerName: 'ann "A"', publicText: '{"name":"ü"}' }];

let api: BareApi;
beforeAll(async () => {
  const page = async () => ({ rows, totalEntries: 7 });
  const listed = { owner: { id: 'a', name: 'ann' }, instanceText: '{}', timeline: [], operationId: null, disks: [] };
  api = await startEdge(
    fakeControl({
      egress: { set: async (_caller, { policy }) => ({ regionId: null, accountId: 'a', policy }) },
      operator: {
        instances: page,
        volumes: page,
        instance: async () => ({
          ...listed,
          runImageCommand: false,
          startCommand: 'export KEY=secret',
          billing: { autoRenew: false, resume: false, paidTime: null },
          operatorAction: null,
        }),
        start: act,
        drain: async (_caller, { regionId, stopRunningAfterMs }) => ({
          regionId,
          drain: { reason: 'r', sinceMs: 1, stopAtMs: stopRunningAfterMs ?? null },
        }),
      },
    }),
  );
});
afterAll(() => api.stop());

const pager = { currentPage: 1, pageSize: 1 };
const post = (path: string, body: object, headers = {}) => api.post(path, body, { token: ADMIN_TOKEN, headers });

test('lists instances and volumes with their owners', async () => {
  const owner = { accountId: 'a', username: 'ann "A"' };
  expect((await post('/admin/instance/list', { pager })).json).toEqual({
    instances: [{ ...owner, instance: { name: 'ü' } }],
    pager: { ...pager, totalEntries: 7 },
  });
  expect((await post('/admin/volume/list', { pager })).json).toMatchObject({
    volumes: [{ ...owner, volume: { name: 'ü' } }],
  });
});

test('shows an instance without its start command, which may hold secrets', async () => {
  const { json } = await post('/admin/instance/get', { instanceId: 'x' });
  expect(json).toEqual({
    accountId: 'a',
    username: 'ann',
    billing: { autoRenew: false, resume: false, paidTime: null },
    instance: {},
    timeline: [],
    operationId: null,
    disks: [],
    operatorAction: null,
  });
});

test('acts once for an idempotency key, with a reason, and names no operation of another account', async () => {
  const headers = { 'idempotency-key': 'k', 'x-berth-wait-for-capacity': '60' };
  const reply = await post('/admin/instance/start', { instanceId: 'x', reason: 'as asked' }, headers);
  expect(reply).toMatchObject({ status: 200, json: { instanceId: 'x' } });
  expect(reply.headers['x-operation-id']).toBeUndefined();
  expect(given).toEqual([
    { instanceId: 'x', reason: 'as asked', withoutGpu: false, newRootDisk: false },
    expect.objectContaining({ key: 'k' }),
    60_000,
  ]);
  for (const reason of [undefined, '', '   ', 'x'.repeat(501)])
    expect((await post('/admin/instance/stop', { instanceId: 'x', reason })).status, reason).toBe(400);
});

test('drains a region for minutes', async () => {
  const body = { regionId: 'here', drain: true, reason: 'r', stopRunningAfterMinutes: 2 };
  const { json } = await post('/admin/region/drain', body);
  expect(json).toEqual({ regionId: 'here', drain: { reason: 'r', sinceUnixMs: 1, stopsAtUnixMs: 120_000 } });
});

test('takes an egress policy, and says what is wrong with another', async () => {
  const set = (policy: unknown) => post('/admin/egress/set', { account: 'ann', policy });
  const policy = { mode: 'list', allow: [{ cidr: '203.0.113.0/24', ports: ['443'], protocol: 'tcp' }] };
  expect(await set(policy)).toMatchObject({ status: 200, json: { regionId: null, accountId: 'a', policy } });
  expect(await set(null)).toMatchObject({ status: 200, json: { policy: null } });
  const wrong: [unknown, string][] = [
    [{ mode: 'list' }, 'must be set for the mode list; it may be empty'],
    [{ mode: 'none', allow: [] }, 'must not be set for the mode none'],
    [{ mode: 'list', allow: [{ cidr: 'pypi.org' }] }, 'a name is refused because its addresses change: send them'],
    [{ mode: 'list', allow: [{ cidr: '10.0.0.0/8', ports: ['https'] }] }, 'is no port such as 443 or 8000-8100'],
  ];
  for (const [given, why] of wrong)
    expect(await set(given)).toMatchObject({ status: 400, json: { message: expect.stringContaining(why) } });
});

test.each([
  '/admin/egress/get',
  '/admin/egress/set',
  '/admin/instance/list',
  '/admin/instance/get',
  '/admin/instance/stop',
  '/admin/instance/start',
  '/admin/instance/terminate',
  '/admin/volume/list',
  '/admin/region/drain',
])('refuses %s to accounts without the role', async (path) => {
  expect(await api.post(path, {}, { token: GOOD_TOKEN })).toMatchObject({ status: 403 });
});
