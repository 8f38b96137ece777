import { expect, test } from 'vitest';
import { familiesOf, type Stock } from '../../../src/control/regions/capacity/catalog.ts';
import { makeRegionTexts } from '../../../src/control/regions/region-texts.ts';
import { catalogAnswer } from '../../../src/contract/regions/catalog.ts';
import { instanceTypeId, regionId } from '../../../src/domain/kernel/ids.ts';
import {
  defaultStoragePrices,
  type InstanceType,
  mapStoragePrices,
  toDollars,
} from '../../../src/domain/regions/catalog.ts';
import * as firstRun from '../../../src/main/first-run.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent } from './consistency.ts';
import { A_DAY_MS, machineOf, makeSizedWorld } from './capacity-fixture.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const storagePrices = mapStoragePrices(defaultStoragePrices, toDollars);

const stock = (regionName: string, cpuMilli: number, gpus = 0): Stock => ({
  regionName,
  open: { free: { cpuMilli, memoryMiB: 8 * 1024, gpus: gpus === 0 ? {} : { A100: gpus } }, nodePorts: 3 },
  hosts: null,
  gpuMemoryGB: new Map([['A100', 40]]),
  gpuParts: new Map([['A100', { slice: 'shared', card: 'A100 card' }]]),
  offPeak: null,
  storagePrices,
});

const plenty = { free: { cpuMilli: 9e6, memoryMiB: 9e6, gpus: {} }, nodePorts: 5_000 };

const typeOf = (name: string, over: Partial<InstanceType> = {}): InstanceType => ({
  id: instanceTypeId(name),
  regionId: regionId('a'),
  name,
  isSpot: false,
  cpuCores: 1,
  cpuType: 'amd64',
  memoryGB: 2,
  gpuCount: 0,
  gpuName: '',
  rootDiskGB: 20,
  dataDiskGB: 20,
  pricesMicros: firstRun.pricesOf(0.02),
  ...over,
});

test('groups families by GPU name and spot, with regions and types in order', () => {
  const stocks = new Map([
    ['a', stock('region a', 4_000, 2)],
    ['b', stock('region b', 4_000)],
    ['deaf', { ...stock('deaf', 0), open: null }],
  ]);
  const types = [
    typeOf('cpu.1'),
    typeOf('cpu.8', { cpuCores: 8 }),
    typeOf('cpu.1.b', { regionId: regionId('b') }),
    typeOf('spot.1', { isSpot: true }),
    typeOf('gpu.1', { gpuCount: 1, gpuName: 'A100' }),
    typeOf('gpu.4', { gpuCount: 4, gpuName: 'A100' }),
    typeOf('lost', { regionId: regionId('nowhere') }),
    typeOf('cpu.1.deaf', { regionId: regionId('deaf') }),
  ];
  const families = familiesOf(types, stocks);
  catalogAnswer.parse({ instanceInfos: families });
  const memory = families.flatMap(({ regionInfos }) => regionInfos.flatMap((region) => region.instanceTypeInfos));
  expect(
    memory.flatMap(({ instanceTypeName, gpuMemoryGB }) => (gpuMemoryGB ? [instanceTypeName, gpuMemoryGB] : [])),
  ).toEqual(['gpu.1', 40, 'gpu.4', 40]);
  const parts = memory.flatMap(({ instanceTypeName: name, ...one }) =>
    one.gpuSlice ? [[name, one.gpuSlice, one.gpuCard]] : [],
  );
  expect(parts).toEqual([
    ['gpu.1', 'shared', 'A100 card'],
    ['gpu.4', 'shared', 'A100 card'],
  ]);
  const fits = memory.map(({ instanceTypeName, fitsNow }) => [instanceTypeName, fitsNow]);
  expect(Object.fromEntries(fits), 'the least of cores, GPUs and node ports').toEqual({
    'cpu.1': 3,
    'cpu.8': 0,
    'cpu.1.b': 3,
    'cpu.1.deaf': 0,
    'spot.1': 3,
    'gpu.1': 2,
    'gpu.4': 0,
  });
  const large = new Map([['a', { ...stock('large', 9_000_000), open: plenty }]]);
  expect(familiesOf([typeOf('cpu.1')], large)[0]?.regionInfos[0]?.instanceTypeInfos[0]?.fitsNow).toBe(100);
  const shape = families.map(({ gpuName, isSpotInstance, regionInfos }) => [
    gpuName,
    isSpotInstance,
    ...regionInfos.map((regionInfo) => [
      regionInfo.regionId,
      ...regionInfo.instanceTypeInfos.map(
        ({ instanceTypeName, stockStatus, gpuNum }) => `${instanceTypeName} ${stockStatus} ${gpuNum}`,
      ),
    ]),
  ]);
  expect(shape).toEqual([
    [
      '',
      false,
      ['a', 'cpu.1 InStock 0', 'cpu.8 OutOfStock 0'],
      ['b', 'cpu.1.b InStock 0'],
      ['deaf', 'cpu.1.deaf OutOfStock 0'],
    ],
    ['', true, ['a', 'spot.1 InStock 0']],
    ['A100', false, ['a', 'gpu.1 InStock 1', 'gpu.4 OutOfStock 4']],
  ]);
});

test('offers each type that fits an empty machine at least once', () => {
  const names = (cpuCores: number, memoryGB: number, gpus = 0): string[] =>
    firstRun
      .typesThatFit({
        cpuCores,
        memoryMiB: memoryGB * 1024,
        gpus: Array.from({ length: gpus }, () => ({ name: 'A100' })),
        architecture: 'amd64',
      })
      .map(({ name, memoryGB: memory }) => `${name} ${memory}`);
  expect(names(1, 2)).toEqual(['cpu.1 1']);
  expect(names(2, 8)).toEqual(['cpu.1 2', 'cpu.2 4']);
  expect(names(8, 9)).toEqual(['cpu.1 2', 'cpu.2 4', 'cpu.4 8', 'cpu.8 8']);
  expect(names(64, 257, 4).slice(-3)).toEqual(['gpu.1 56', 'gpu.2 112', 'gpu.4 224']);
});

test('charges less per hour for longer periods, exactly', () => {
  const prices = firstRun.pricesOf(0.02);
  const hourly = [prices.perHour, prices.perDay / 24n, prices.perWeek / 168n, prices.perMonth / 720n];
  expect(hourly).toEqual([20_000n, 18_000n, 16_000n, 14_000n]);
  expect(toDollars(prices.tidePerHour)).toBe(0.01);
});

const twoTypes = { 'cpu.1': { cpuCores: 1, memoryGB: 2 }, 'cpu.2': { cpuCores: 2, memoryGB: 4 } };

const stockOf = async (world: World): Promise<string[]> =>
  (await world.running.control.catalog.families()).flatMap(({ regionInfos }) =>
    regionInfos.flatMap(({ instanceTypeInfos }) =>
      instanceTypeInfos.map(({ instanceTypeName, stockStatus }) => `${instanceTypeName} ${stockStatus}`),
    ),
  );

onBothEngines('the catalog', (open) => {
  test('shows a type out of stock once too little is free, and in stock again at once', async () => {
    const world = await makeSizedWorld(await open(), machineOf(2, 4), twoTypes);
    await eventually(() => world.drivers.health.answers);
    expect(await stockOf(world)).toEqual(['cpu.1 InStock', 'cpu.2 InStock']);
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.of('cpu.1'), null);
    expect(await stockOf(world)).toEqual(['cpu.1 InStock', 'cpu.2 OutOfStock']);
    await world.running.control.instances.terminate(world.caller, { instanceId }, null);
    expect(await stockOf(world)).toEqual(['cpu.1 InStock', 'cpu.2 InStock']);
  });

  test('shows reserved capacity, regions without node ports, and unanswered engines as out of stock', async () => {
    const world = await makeSizedWorld(await open(), machineOf(2, 4), twoTypes, {
      start: false,
      nodePorts: { first: 30_000, last: 30_001 },
    });
    const { instances } = world.running.control;
    expect(await stockOf(world)).toEqual(['cpu.1 OutOfStock', 'cpu.2 OutOfStock']);
    await world.running.start();
    await eventually(() => world.drivers.health.answers);
    const other = await world.account('other');
    const one = await instances.launch(other, world.of('cpu.1'), null);
    expect(await stockOf(world)).toEqual(['cpu.1 InStock', 'cpu.2 OutOfStock']);
    const waiting = await instances.launch(world.caller, world.of('cpu.2'), null, A_DAY_MS);
    expect(await stockOf(world)).toEqual(['cpu.1 OutOfStock', 'cpu.2 OutOfStock']);
    await instances.terminate(world.caller, waiting, null);
    await eventually(async () => (await stockOf(world))[0] === 'cpu.1 InStock');
    await instances.launch(world.caller, world.of('cpu.1'), null);
    await instances.terminate(other, one, null);
    await eventually(async () => (await stockOf(world))[0] === 'cpu.1 InStock');
    const ports = { nodePortsTotal: 1 };
    await world.store.write((tx) => tx.updateTable('region').set(ports).execute());
    expect(await stockOf(world)).toEqual(['cpu.1 OutOfStock', 'cpu.2 OutOfStock']);
  });

  test('rewrites only the changed region facts in the texts of instances', async () => {
    const world = await makeWorld(await open());
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const before = await world.until(instanceId, hasStatus('Running'));
    await world.running.stop();
    const version = await world.store.versionOf(world.caller.accountId);
    const changed = { name: 'renamed', location: 'here', ownDomain: 'other.test', sshAddress: '192.0.2.99' };
    await world.store.write((tx) => tx.updateTable('region').set(changed).execute());
    await makeRegionTexts({ store: world.store, stopping: new AbortController().signal })();
    const after = await world.instance(instanceId);
    expect(after.instanceSpecInfo.regionInfo).toMatchObject({
      name: 'renamed',
      domain: 'other.test',
      sshAddress: '192.0.2.99',
    });
    expect(after.instanceSpecInfo.nodePorts).toEqual(
      before.instanceSpecInfo.nodePorts.map((port) => ({ ...port, address: '192.0.2.99' })),
    );
    expect(after.instanceRuntimeInfo).toEqual(before.instanceRuntimeInfo);
    expect(await world.store.versionOf(world.caller.accountId)).toBeGreaterThan(version);
    await expectConsistent(world);
  });
});
