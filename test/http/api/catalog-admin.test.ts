/** The catalog's administration over HTTP: roles, bounds, stale versions, and what others see. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../../src/contract/client.ts';
import { ids } from './control-fixture.ts';
import { launchRequest, startApi, type TestApi } from './harness.ts';

let api: TestApi;
let admin: Client;
beforeAll(async () => {
  api = await startApi();
  admin = api.admin.client;
});
afterAll(() => api.stop());

const pager = { currentPage: 1, pageSize: 10 };
const prices = { tidePerHour: 0.05, perHour: 0.1, perDay: 2, perWeek: 12, perMonth: 40 };
const type = {
  regionId: ids.region,
  name: 'large',
  cpuCores: 2.5,
  memoryGB: 4,
  rootDiskGB: 20,
  dataDiskGB: 20,
  prices,
};
const post = (path: string, body: object) => api.post(`/admin/${path}`, body, { token: api.admin.token });

test('only administrators change the catalog, and only operators see its versions', async () => {
  const user = await api.newAccount();
  for (const path of ['type/list', 'image/list'])
    expect(await api.post(`/admin/${path}`, { pager }, { token: user.token })).toMatchObject({ status: 403 });
  const wrong = await api.post('/admin/type/create', type, { token: user.token });
  expect(wrong).toMatchObject({ status: 403, headers: { 'x-error-code': 'forbidden' } });
});

test('a type is listed in the documented members and launched; a stale version is a 412 with the row', async () => {
  const made = await admin.createType(type);
  expect(made).toMatchObject({ type: { ...type, version: 1, retired: false }, warnings: [] });
  const { instanceTypeId } = made.type;
  const { client } = await api.newAccount();
  const { instanceInfos } = await client.catalog();
  expect(instanceInfos[0]?.regionInfos[0]?.instanceTypeInfos.at(-1)).toEqual({
    instanceTypeId,
    gpuNum: 0,
    stockStatus: expect.any(String),
    fitsNow: expect.any(Number),
    price: Object.entries(prices).map(([chargeMode, price]) => ({ chargeMode, price })),
    instanceTypeName: 'large',
    cpuCores: 2.5,
    memoryGB: 4,
    rootDiskGB: 20,
    dataDiskGB: 20,
  });
  await client.launch(launchRequest({ instanceTypeId }));
  const change = { instanceTypeId, version: 1, name: 'larger' };
  expect(await admin.updateType({ ...change, dryRun: true })).toMatchObject({
    type: { name: 'larger', version: 1 },
    affected: { accounts: 1, running: 1, stopped: 0, atOtherPrice: 0 },
  });
  const changed = await admin.updateType(change);
  expect(changed.type).toMatchObject({ name: 'larger', version: 2 });
  const stale = await post('type/update', { ...change, name: 'mine' });
  expect(stale).toMatchObject({
    status: 412,
    headers: { 'x-error-code': 'precondition_failed', 'content-type': expect.stringContaining('problem+json') },
    json: {
      current: changed.type,
      message: expect.stringMatching(/type larger has version 2, and the request has version 1/),
    },
  });
  await admin.retireType({ instanceTypeId, version: 2 });
  await expect(client.launch(launchRequest({ instanceTypeId }))).rejects.toMatchObject({ status: 404 });
});

test.each([
  [{ cpuCores: 0 }, /"cpuCores"/],
  [{ cpuCores: 1_025 }, /"cpuCores"/],
  [{ cpuCores: 0.12345 }, /at most 3 decimals/],
  [{ memoryGB: 0.1 }, /"memoryGB"/],
  [{ memoryGB: 1.0001 }, /whole MiB/],
  [{ gpuNum: 65, gpuName: 'A100' }, /"gpuNum"/],
  [{ rootDiskGB: 0 }, /"rootDiskGB"/],
  [{ dataDiskGB: 0.5 }, /"dataDiskGB"/],
  [{ name: ' ' }, /"name"/],
  [{ runtime: '../runsc' }, /container runtime/],
  [{ prices: { ...prices, perHour: -1 } }, /"prices.perHour"/],
  [{ prices: { ...prices, perHour: 1_000_001 } }, /"prices.perHour"/],
  [{ prices: { ...prices, perHour: 0.0000001 } }, /at most 6 decimals/],
  [{ prices: { perHour: 1 } }, /"prices.tidePerHour" is not set/],
])('refuses a type with %j', async (over, text) => {
  const refused = await post('type/create', { ...type, name: 'refused', ...over });
  expect(refused).toMatchObject({ status: 400, json: { message: expect.stringMatching(text) } });
});

test('prices of storage are shown to all, with their history', async () => {
  const { token, client } = await api.newAccount();
  const storagePrices = { filesystem: 0.07, highspeedstorage: 0.2, snapshot: 0, keptDisk: 0.01 };
  const { region } = await admin.getRegion({ regionId: ids.region });
  const { regionId, version } = region;
  const changed = await admin.updateRegion({ regionId, version, storagePrices });
  expect(changed.region).toMatchObject({ storagePrices, storagePricesFrom: 'administrator' });
  const { regions } = await client.listRegions({});
  expect(regions[0]).toMatchObject({ storagePrices });
  expect((await client.catalog()).instanceInfos[0]?.regionInfos[0]).toMatchObject({ storagePrices });
  const change = {
    fromUnixMs: expect.any(Number),
    regionId,
    instanceTypeId: null,
    prices: null,
    storagePrices,
    scheduled: false,
  };
  const listed = await client.listPrices({ pager, regionId });
  expect(listed.changes[0]).toEqual(change);
  const { changes } = await admin.listPriceChanges({ pager, regionId });
  expect(changes[0]).toEqual({ ...change, byAccountId: expect.any(String) });
  expect(await api.post('/admin/price/list', { pager }, { token })).toMatchObject({ status: 403 });
  const reset = await admin.updateRegion({ regionId, version: version + 1, storagePrices: null });
  expect(reset.region.storagePricesFrom).toBe('default');
});

test('prices are scheduled, shown to all, quoted, and withdrawn by administrators', async () => {
  const { token, client } = await api.newAccount();
  const types = (await admin.listTypes({ pager: { ...pager, pageSize: 50 } })).types;
  const found = types.find((one) => one.instanceTypeId === launchRequest().instanceTypeId);
  if (!found) throw new Error('the type of launches is not offered');
  const { instanceTypeId, version, regionId } = found;
  const later = { ...found.prices, perHour: found.prices.perHour + 1 };
  const fromUnixMs = Date.now() + 3_600_000;
  const scheduled = await admin.updateType({ instanceTypeId, version, prices: later, fromUnixMs });
  expect(scheduled.type).toEqual({ ...found, prices: later });
  const change = { fromUnixMs, regionId, instanceTypeId, prices: later, storagePrices: null, scheduled: true };
  expect((await client.listPrices({ pager, instanceTypeId })).changes[0]).toEqual(change);
  const { quote } = await client.quote(launchRequest());
  expect(quote).toMatchObject({
    price: found.prices.perHour,
    nextPriceChange: { atUnixMs: fromUnixMs, price: later.perHour },
  });
  const of = { regionId, instanceTypeId, fromUnixMs };
  expect(await api.post('/admin/price/withdraw', of, { token })).toMatchObject({ status: 403 });
  const withdrawn = await admin.withdrawPrices(of);
  expect(withdrawn.change).toEqual({ ...change, byAccountId: expect.any(String) });
  expect(await post('price/withdraw', of)).toMatchObject({ status: 404 });
  expect((await client.quote(launchRequest())).quote.nextPriceChange).toBeNull();
  for (const [wrong, text] of [
    [-1, /"fromUnixMs"/],
    [1.5, /"fromUnixMs"/],
    [1e300, /"fromUnixMs"/],
    ['soon', /"fromUnixMs"/],
    [1_000, /1970-01-01T00:00:01.000Z.*send a later time/],
    [Date.UTC(9999, 0), /at most 731 days ahead/],
  ] as const)
    expect(await post('type/update', { instanceTypeId, version, prices: later, fromUnixMs: wrong })).toMatchObject({
      status: 400,
      json: { message: expect.stringMatching(text) },
    });
});

test.each([
  [{ filesystem: -1 }, /"storagePrices.filesystem"/],
  [{ snapshot: 1_001 }, /"storagePrices.snapshot"/],
  [{ keptDisk: 0.0000001 }, /at most 6 decimals/],
  [{ keptDisk: undefined }, /"storagePrices.keptDisk" is not set/],
  [{ keptDisk: '1' }, /type mismatch.*"storagePrices.keptDisk"/],
  [{ tape: 1 }, /tape/],
])('refuses prices of storage with %j', async (over, text) => {
  const { version } = (await admin.getRegion({ regionId: ids.region })).region;
  const storagePrices = { filesystem: 1, highspeedstorage: 1, snapshot: 1, keptDisk: 1, ...over };
  const refused = await post('region/update', { regionId: ids.region, version, storagePrices });
  expect(refused).toMatchObject({ status: 400, json: { message: expect.stringMatching(text) } });
});

test('a change of a type refuses what its creation refuses', async () => {
  const { types } = await admin.listTypes({ pager });
  const { instanceTypeId, version } = types[0] ?? {};
  const refused = await post('type/update', { instanceTypeId, version, cpuCores: 5_000 });
  expect(refused).toMatchObject({ status: 400, json: { message: expect.stringMatching(/"cpuCores"/) } });
});

test('an image of the operator is listed for all, and gone once retired', async () => {
  const made = await admin.createCatalogImage({ name: 'tool', ref: 'registry.example.org/team/tool', tags: ['x'] });
  expect(made.image).toMatchObject({ ref: 'registry.example.org/team/tool:latest', version: 1, tags: ['x'] });
  expect(made.warnings).toEqual([expect.stringMatching(/^not checked yet: /)]);
  const { client } = await api.newAccount();
  const { imageId } = made.image;
  const names = async () => (await client.listImages({ pager })).images.map((image) => image.imageId);
  expect(await names()).toContain(imageId);
  const renamed = await admin.updateCatalogImage({ imageId, version: 1, name: 'tools', tags: [] });
  expect(renamed.image).toMatchObject({ name: 'tools', tags: [], version: 2 });
  expect(await post('image/retire', { imageId, version: 1 })).toMatchObject({ json: { current: { name: 'tools' } } });
  await admin.retireCatalogImage({ imageId, version: 2 });
  expect(await names()).not.toContain(imageId);
  expect((await admin.listCatalogImages({ pager })).images.at(-1)).toMatchObject({ imageId, retired: true });
});

test('a region shows its off-peak windows, validated, in its prices', async () => {
  const { version } = (await admin.getRegion({ regionId: ids.region })).region;
  const window = { days: ['sat', 'sun'], start: '00:00', end: '24:00' };
  const update = (offPeak: object | null) => post('region/update', { regionId: ids.region, version, offPeak });
  for (const [offPeak, text] of [
    [{ timeZone: 'Mars/Olympus', windows: [window] }, /IANA time zone/],
    [{ timeZone: 'UTC', windows: [window, window] }, /overlaps/],
    [{ timeZone: 'UTC', windows: [] }, /windows/],
    [{ timeZone: 'UTC', windows: [{ ...window, start: '25:00' }] }, /HH:MM/],
    [{ timeZone: 'UTC', windows: [{ ...window, days: ['sat', 'sat'] }] }, /each day once/],
  ] as const)
    expect(await update(offPeak)).toMatchObject({ status: 400, json: { message: expect.stringMatching(text) } });
  const offPeak = { timeZone: 'Asia/Kolkata', windows: [window] };
  expect(await update(offPeak)).toMatchObject({ json: { region: { offPeak, version: version + 1 } } });
  const { client } = await api.newAccount();
  const [price] = (await client.catalog()).instanceInfos[0]?.regionInfos[0]?.instanceTypeInfos[0]?.price ?? [];
  expect(price).toMatchObject({ chargeMode: 'tidePerHour', offPeak });
  for (const domain of ['https://x.test', 'X.test', 'x.test/y', ''])
    expect(await post('region/update', { regionId: ids.region, version: version + 1, domain })).toMatchObject({
      status: 400,
      json: { message: expect.stringMatching(/host or host:port/) },
    });
});

test('a region is added with its engine, listed, launched in, and gone for users once retired', async () => {
  const settings = {
    simulated: { cpuCores: 4, memoryGB: 8, gpus: 0 },
    pools: [{ name: 'default' as const, sizeGB: 500 }],
    nodePorts: { first: 31_000, last: 31_099 },
  };
  const region = { name: 'Annex', value: 'annex', location: 'cellar', sshAddress: '192.0.2.7', settings };
  const { token, client } = await api.newAccount();
  for (const path of ['create', 'list', 'retire'])
    expect(await api.post(`/admin/region/${path}`, region, { token })).toMatchObject({ status: 403 });
  const secret = 'top-secret-of-the-engine';
  const made = await admin.createRegion({ ...region, credentials: secret });
  expect(made.region).toMatchObject({ version: 1, settings, hasCredentials: true });
  expect(made.engine.version).not.toBe('');
  expect(JSON.stringify(made)).not.toContain(secret);
  const regions = await admin.listManagedRegions({ pager });
  expect(regions.regions.map(({ name }) => name)).toEqual(['Annex', 'Test']);
  const { regionId } = (await admin.getRegion({ regionId: made.region.regionId })).region;
  const small = { ...type, regionId, name: 'small', cpuCores: 1, dataDiskGB: 5 };
  const { instanceTypeId } = (await admin.createType(small)).type;
  await client.launch({ ...launchRequest(), region: regionId, instanceTypeId });
  await admin.retireRegion({ regionId, version: 1 });
  expect((await client.listRegions({})).regions.map(({ name }) => name)).toEqual(['Test']);
  const again = await api.post('/instance/create', { ...launchRequest(), region: regionId, instanceTypeId }, { token });
  expect(again).toMatchObject({ status: 404, json: { message: expect.stringMatching(/region Annex is retired/) } });
});

test('a region in a cluster has a namespace of its own, which stays', async () => {
  const settingsOf = (namespace: string, apiUrl = 'https://cluster.test:6443') => ({
    kubernetes: { login: 'token' as const, apiUrl, namespace, networkPolicies: true },
    pools: [
      {
        name: 'default' as const,
        sizeGB: 500,
        claims: { storageClass: 'fast', sizeLimit: 'hard' as const, filesImage: 'busybox:1.37' },
      },
    ],
    nodePorts: { first: 31_000, last: 31_099 },
  });
  const region = (value: string, settings: ReturnType<typeof settingsOf>) => ({
    name: value,
    value,
    location: 'cellar',
    sshAddress: '192.0.2.7',
    credentials: 'token',
    settings,
  });
  const idOf = async (value: string, settings: ReturnType<typeof settingsOf>): Promise<string> =>
    (await admin.createRegion(region(value, settings))).region.regionId;
  const regionId = await idOf('one', settingsOf('gpus'));
  const taken = {
    status: 409,
    json: { message: expect.stringMatching(/is that of region one .* make a namespace for each region/) },
  };
  const same = region('two', settingsOf('gpus', 'https://CLUSTER.test:6443/'));
  expect(await post('region/create', same)).toMatchObject(taken);
  const two = await idOf('two', settingsOf('gpus', 'https://other.test:6443'));
  expect(await post('region/update', { regionId: two, version: 1, settings: settingsOf('gpus') })).toMatchObject(taken);
  const moved = settingsOf('elsewhere');
  expect(await post('region/update', { regionId, version: 1, settings: moved })).toMatchObject({
    status: 400,
    json: { message: expect.stringMatching(/instances and disks of the region are in gpus; create another region/) },
  });
  // The address of the API server may change.
  const address = settingsOf('gpus', 'https://cluster.test:443');
  expect(await post('region/update', { regionId, version: 1, settings: address })).toMatchObject({ status: 200 });
  const without = { ...settingsOf('gpus'), sharedFolder: false };
  expect(await post('region/update', { regionId, version: 2, settings: without })).toMatchObject({ status: 200 });
  expect(await post('region/update', { regionId, version: 3, settings: address })).toMatchObject({
    status: 400,
    json: { message: expect.stringMatching(/sharedFolder" stays false.*create another region/) },
  });
});

const inCluster = (kubernetes: object): object => ({
  kubernetes: { login: 'inCluster', namespace: 'berth', networkPolicies: true, ...kubernetes },
  pools: [{ name: 'default', sizeGB: 1 }],
  nodePorts: { first: 1, last: 2 },
});

test.each([
  [{ settings: { nomad: {} } }, /nomad/],
  [{ settings: { pools: [], nodePorts: { first: 1, last: 2 } } }, /pools/],
  [{ settings: { pools: [{ name: 'default', sizeGB: 1 }], nodePorts: { first: 1, last: 2 } } }, /not one engine/],
  [{ sshAddress: 'a b' }, /sshAddress/],
  [{ value: 'A B' }, /lower-case/],
  [{ credentials: '' }, /credentials/],
  [{ engine: 'docker' }, /engine/],
  [{ settings: inCluster({ podRanges: ['10.98.0.0'] }) }, /podRanges.*must be a range such as 10\.98\.0\.0\/16/],
  [{ settings: inCluster({ peers: [{ cidr: 'gateway' }] }) }, /cidr.*must be a range such as/],
])('refuses a region with %j', async (over, text) => {
  const settings = {
    simulated: { cpuCores: 1, memoryGB: 1, gpus: 0 },
    pools: [{ name: 'default', sizeGB: 1 }],
    nodePorts: { first: 1, last: 2 },
  };
  const region = { name: 'x', value: 'x', location: 'x', sshAddress: '192.0.2.7', settings, ...over };
  const refused = await post('region/create', region);
  expect(refused).toMatchObject({ status: 400, json: { message: expect.stringMatching(text) } });
});
