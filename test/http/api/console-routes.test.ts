/** Routes that tables and the launch page of the console need, by the typed client. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { saveRegionUse } from '../../../src/store/tables/region-use.ts';
import { launchRequest, startApi, type Account, type TestApi } from './harness.ts';

let api: TestApi;
let alice: Account;
let bob: Account;

beforeAll(async () => {
  api = await startApi();
  [alice, bob] = [await api.newAccount(), await api.newAccount()];
});
afterAll(() => api.stop());

test('a launch template comes back as a launch that can be sent, and to its account alone', async () => {
  const launch = { ...launchRequest(), name: 'träin', environment: { A: '1' } };
  const { name } = await alice.client.setTemplate({ name: 'one', launch });
  const { templates } = await alice.client.listTemplates();
  expect(templates).toMatchObject([
    { name, launch: { name: 'träin', environment: { A: '1' }, region: launch.region } },
  ]);
  const kept = templates[0]?.launch ?? expect.fail();
  const { instanceId } = await alice.client.launch(kept);
  expect(instanceId).toMatch(/^notebook-/);
  expect(await bob.client.listTemplates()).toEqual({ templates: [] });
  await expect(bob.client.deleteTemplate({ name })).rejects.toMatchObject({ status: 404 });
  expect(await alice.client.deleteTemplate({ name })).toEqual({ name });
});

test('a template with secrets or a wrong launch is refused, by the name of the field', async () => {
  const set = (launch: object) => api.post('/instance/template/set', { name: 'two', launch }, { token: alice.token });
  expect(await set({ ...launchRequest(), secrets: { KEY: 'hidden' } })).toMatchObject({
    status: 400,
    text: expect.stringMatching(/\\"launch\.secrets\\".*environment\/set/),
  });
  expect((await set({ ...launchRequest(), secrets: { KEY: 'hidden' } })).text).not.toContain('hidden');
  expect(await set({ ...launchRequest(), nodePorts: [0] })).toMatchObject({
    status: 400,
    text: expect.stringContaining('launch.nodePorts'),
  });
  expect(await set({ ...launchRequest(), nodePort: [1] })).toMatchObject({
    status: 400,
    text: expect.stringContaining('launch.nodePorts'),
  });
});

test('figures of many instances leave out those of others, and take at most 100', async () => {
  const { instanceId } = await alice.client.launch(launchRequest());
  const theirs = await bob.client.launch(launchRequest());
  const { figures } = await alice.client.instanceFigures({ instanceIds: [theirs.instanceId, instanceId, 'unknown'] });
  expect(figures).toMatchObject([{ instanceId, costToday: 0, costSoFar: 0, stepSeconds: 900, gpuPercent: [] }]);
  expect(figures[0]?.cpuPercent).toEqual(Array.from({ length: 96 }, () => null));
  expect(await alice.client.instanceFigures({ instanceIds: [] })).toEqual({ figures: [] });
  const many = Array.from({ length: 101 }, (_, at) => `notebook-${at}`);
  await expect(alice.client.instanceFigures({ instanceIds: many })).rejects.toMatchObject({ status: 400 });
});

test('the fleet is for operators', async () => {
  const { regions } = await api.admin.client.fleet();
  expect(regions).toMatchObject([
    { retired: false, drain: null, largestHosts: [], presentHosts: null, cpuCores: { used: null } },
  ]);
  expect(regions[0]?.gpus).toMatchObject([
    { driverVersion: '580.159.04', cudaVersion: '13.0', numaNode: 1, links: [{ uuid: 'GPU-1', kind: 'NV18' }] },
    { driverVersion: null, cudaVersion: null, numaNode: null, links: [] },
  ]);
  expect(regions[0]?.types.length).toBeGreaterThan(0);
  await expect(alice.client.fleet()).rejects.toMatchObject({ status: 403 });
  const regionId = regions[0]?.regionId ?? '';
  const atMs = Math.floor(Date.now() / 300_000) * 300_000;
  const use = { total: 4_096, promised: 2_048, used: null };
  await api.wired.store.write((tx) =>
    saveRegionUse(tx, { regionId, atMs }, { cpuMilli: use, memoryMiB: use, gpuMilli: use, diskGB: use }),
  );
  expect(await api.admin.client.fleetHistory({ regionId })).toEqual({
    stepSeconds: 300,
    steps: [
      {
        atUnixMs: atMs,
        cpuCores: { total: 4.096, promised: 2.048, used: null },
        memoryGB: { total: 4, promised: 2, used: null },
        gpuNum: { total: 4.096, promised: 2.048, used: null },
        diskGB: { total: 4_096, promised: 2_048, used: null },
      },
    ],
  });
  await expect(alice.client.fleetHistory({ regionId })).rejects.toMatchObject({ status: 403 });
});

test('lists refuse an order that they do not have, and name those they have', async () => {
  const pager = { currentPage: 1, pageSize: 1 };
  const list = (path: string, sort: object) => api.post(path, { pager, sort }, { token: api.admin.token });
  for (const [path, by] of [
    ['/instance/list', 'size'],
    ['/storage/volume/list', 'price'],
    ['/admin/instance/list', 'usage'],
    ['/admin/volume/list', 'status'],
    ['/admin/account/list', 'password'],
  ] as const) {
    const refused = await list(path, { by, order: 'asc' });
    expect([path, refused.status, refused.text]).toEqual([path, 400, expect.stringMatching(/sort\.by.*createdAt/)]);
    expect((await list(path, { by: 'createdAt', order: 'asc' })).status).toBe(200);
    expect((await list(path, { by: 'createdAt' })).status).toBe(400);
  }
});
