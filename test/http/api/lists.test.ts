/** Lists over HTTP (docs/interface.md §4.2, §4.3). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { routes } from '../../../src/contract/routes.ts';
import type { TestApi } from './harness.ts';
import { startApi, launchRequest } from './harness.ts';
import { ids } from './control-fixture.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test.each([
  { pageSize: 50, pages: 2 },
  { pageSize: 10, pages: 6 },
])(
  'lists 51 launches over $pages pages of $pageSize, each once, newest first, with the exact total',
  async ({ pageSize, pages }) => {
    const { client } = await api.newAccount();
    const launched: string[] = [];
    for (let n = 0; n < 51; n += 1) {
      const { instanceId } = await client.launch(launchRequest({ name: `number ${n}` }));
      expect(instanceId).toMatch(/^notebook-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
      launched.push(instanceId);
    }
    const seen: { id: string; madeMs: number }[] = [];
    for (let currentPage = 1; currentPage <= pages; currentPage += 1) {
      const { instances, pager } = await client.listInstances({ pager: { currentPage, pageSize } });
      expect(pager).toEqual({ currentPage, pageSize, totalEntries: 51 });
      expect(instances).toHaveLength(currentPage === pages ? 1 : pageSize);
      for (const { instanceMetadata, instanceRuntimeInfo } of instances) {
        seen.push({ id: instanceMetadata.instanceId, madeMs: instanceRuntimeInfo.createAtUnixMs });
      }
    }
    expect(seen.map(({ id }) => id).toSorted()).toEqual(launched.toSorted());
    expect(seen.map(({ madeMs }) => madeMs)).toEqual(seen.map(({ madeMs }) => madeMs).toSorted((a, b) => b - a));
    expect(await client.listInstances({ pager: { currentPage: pages + 1, pageSize } })).toEqual({
      instances: [],
      pager: { currentPage: pages + 1, pageSize, totalEntries: 51 },
    });
  },
);

test('a page has no member outside of the interface', async () => {
  const { client, token } = await api.newAccount();
  await client.launch(launchRequest());
  await client.createVolume({ name: 'one', sizeGB: 3, region: ids.region, volumeType: 'filesystem' });
  const pager = { pager: { currentPage: 1, pageSize: 10 } };
  const instances = await api.post('/instance/list', pager, { token });
  expect(routes.listInstances.answer.parse(instances.json)).toEqual(instances.json);
  const volumes = await api.post('/storage/volume/list', pager, { token });
  expect(routes.listVolumes.answer.parse(volumes.json)).toEqual(volumes.json);
  expect(instances.headers['content-type']).toBe('application/json; charset=utf-8');
  expect(instances.headers['content-length']).toBe(String(Buffer.byteLength(instances.text)));
});

test('a change is in the next list, however often the page was read before', async () => {
  const { client } = await api.newAccount();
  const pager = { pager: { currentPage: 1, pageSize: 5 } };
  for (let total = 0; total < 4; total += 1) {
    for (let again = 0; again < 3; again += 1) {
      expect((await client.listInstances(pager)).pager.totalEntries).toBe(total);
    }
    await client.launch(launchRequest());
  }
});

test('a new volume is Pending and unused, and listed for its owner only', async () => {
  const [alice, bob] = [await api.newAccount(), await api.newAccount()];
  const { volume } = await alice.client.createVolume({
    name: 'data',
    sizeGB: 7,
    region: ids.region,
    volumeType: 'highspeedstorage',
  });
  expect(volume).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    volumeName: 'data',
    region: ids.region,
    volumeType: 'highspeedstorage',
    sizeGB: 7,
    usageGB: 0,
    status: 'Pending',
    username: alice.username,
  });
  const pager = { pager: { currentPage: 1, pageSize: 10 } };
  expect((await alice.client.listVolumes(pager)).volumeList.map(({ id }) => id)).toEqual([volume.id]);
  expect((await bob.client.listVolumes(pager)).volumeList).toEqual([]);
  await expect(
    alice.client.createVolume({ name: 'data', sizeGB: 7, region: ids.region, volumeType: 'filesystem' }),
  ).rejects.toMatchObject({ status: 409, code: 'name_taken', message: 'Volume already exists' });
});

test("answers for another account's instance as for an unknown one, on every route with an id", async () => {
  const [alice, bob] = [await api.newAccount(), await api.newAccount()];
  const { instanceId } = await alice.client.launch(launchRequest());
  const never = 'notebook-00000000-0000-4000-8000-000000000000';
  for (const route of ['stop', 'start', 'restart', 'terminate', 'open']) {
    const [theirs, nobodys] = await Promise.all(
      [instanceId, never].map((id) => api.post(`/instance/${route}`, { instanceId: id }, { token: bob.token })),
    );
    expect(theirs?.status).toBe(404);
    expect(theirs?.json).toMatchObject({ message: 'ent: instance not found' });
    expect(theirs?.text).toBe(nobodys?.text);
    expect(theirs?.headers['x-error-code']).toBe('not_found');
  }
  expect((await alice.client.listInstances({ pager: { currentPage: 1, pageSize: 1 } })).pager.totalEntries).toBe(1);
});
