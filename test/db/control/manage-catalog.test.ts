/** The catalog as data of administrators: versions, previews, retirements, upgrades. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Refusal } from '../../../src/domain/kernel/refusal.ts';
import * as firstRun from '../../../src/main/first-run.ts';
import { catalogInstanceTypes } from '../../../src/store/tables/catalog.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventKinds, expectRefused } from './access-fixture.ts';

const prices = { tidePerHour: 0.05, perHour: 0.1, perDay: 2, perWeek: 12, perMonth: 40 };
const newType = (world: World, name: string) => ({
  regionId: world.drivers.regionId,
  name,
  isSpot: false,
  cpuCores: 0.5,
  memoryGB: 1,
  gpuNum: 0,
  gpuName: '',
  rootDiskGB: 10,
  dataDiskGB: 5,
  runtime: '',
  prices,
});
const change = { version: 1, dryRun: false };
const all = { currentPage: 1, pageSize: 500 };

const offered = async (world: World): Promise<string[]> =>
  (await world.running.control.catalog.families()).flatMap(({ regionInfos }) =>
    regionInfos.flatMap(({ instanceTypeInfos }) => instanceTypeInfos.map(({ instanceTypeName }) => instanceTypeName)),
  );

const machine = { cpuCores: 2, memoryMiB: 5 * 1024, architecture: 'amd64', gpus: [] };

onBothEngines('the catalog of administrators', (open) => {
  test('is offered at once, launched, and refused once retired; its instances stay, stop and start', async () => {
    const world = await makeWorld(await open(), { machine });
    const { offeredTypes, instances } = world.running.control;
    const { type, warnings } = await offeredTypes.create(world.caller, newType(world, 'half'), null);
    expect(type).toMatchObject({ version: 1, retired: false, name: 'half', cpuType: 'amd64', prices });
    expect(warnings).toEqual([]);
    expect(await offered(world)).toEqual(['cpu.1', 'cpu.2', 'half']);
    const input = world.launchInput({ instanceTypeId: type.instanceTypeId });
    const { instanceId } = await instances.launch(world.caller, input, null);
    await world.until(instanceId, hasStatus('Running'));
    const retired = { instanceTypeId: type.instanceTypeId, ...change, retired: true };
    const answer = await offeredTypes.retire(world.caller, retired, null);
    expect(answer).toMatchObject({ type: { version: 2, retired: true }, affected: { accounts: 1, running: 1 } });
    expect(await offered(world)).toEqual(['cpu.1', 'cpu.2']);
    await expectRefused(instances.launch(world.caller, input, null), 'not_found', /instance type .* not found/);
    await instances.stop(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await instances.start(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
    await offeredTypes.retire(world.caller, { ...retired, version: 2, retired: false }, null);
    await instances.launch(world.caller, input, null);
    expect(
      (await eventKinds(world.store, world.caller.accountId)).filter((kind) => kind.startsWith('instanceT')),
    ).toEqual(['instanceType.created', 'instanceType.retired', 'instanceType.offered']);
  });

  test('accepts one of two concurrent changes with the same version, and shows the other the current row', async () => {
    const world = await makeWorld(await open(), { machine, start: false });
    const other = world.startAnother({ store: await open.again(world.store) }).control;
    const second = await world.account('second');
    const { offeredTypes, offeredImages, regionAdministration } = world.running.control;
    const { type } = await offeredTypes.create(world.caller, newType(world, 'half'), null);
    const of = { instanceTypeId: type.instanceTypeId, dryRun: false };
    const rounds = atLevel({ short: 5, long: 100 });
    for (let version = 1; version <= rounds; version++) {
      const both = await Promise.allSettled([
        offeredTypes.update(world.caller, { ...of, version, prices: { ...prices, perHour: 1 } }, null),
        other.offeredTypes.update(second, { ...of, version, cpuCores: 1 + version / 1000 }, null),
      ]);
      const refused = both.flatMap((one): Refusal[] => (one.status === 'rejected' ? [one.reason] : []));
      expect(refused.map(({ code }) => code)).toEqual(['precondition_failed']);
      const { types } = await offeredTypes.list(all);
      const current = types.find(({ name }) => name === 'half');
      expect(refused[0]?.current).toEqual(current);
      expect(current?.version).toBe(version + 1);
    }
    const stale = { version: 1, dryRun: false };
    const imageId = world.imageId;
    await offeredImages.update(world.caller, { imageId, ...stale, name: 'one' }, null);
    const image = await expectRefused(
      other.offeredImages.update(second, { imageId, ...stale, name: 'two' }, null),
      'precondition_failed',
      /version 2, and the request has version 1/,
    );
    expect(image.current).toMatchObject({ name: 'one', version: 2 });
    const { regionId } = world.drivers;
    await regionAdministration.update(world.caller, { regionId, ...stale, location: 'one' }, null);
    const region = await expectRefused(
      other.regionAdministration.update(second, { regionId, ...stale, location: 'two' }, null),
      'precondition_failed',
    );
    expect(region.current).toMatchObject({ location: 'one', version: 2 });
  });

  test('creates a name once, of concurrent requests', async () => {
    const world = await makeWorld(await open(), { machine, start: false });
    const other = world.startAnother({ store: await open.again(world.store) }).control;
    const made = await Promise.allSettled(
      [world.running.control, other, world.running.control, other].map((control) =>
        control.offeredTypes.create(world.caller, newType(world, 'half'), null),
      ),
    );
    const codes = made.map((one) => (one.status === 'rejected' ? one.reason.code : 'made'));
    expect(codes.toSorted()).toEqual(['made', 'name_taken', 'name_taken', 'name_taken']);
  });

  test('previews without a change: who uses a type, and how many keep another price', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { offeredTypes, offeredImages, instances, regionAdministration } = world.running.control;
    const ann = await world.account('ann');
    const launched = [];
    for (const [caller, chargeMode] of [
      [world.caller, 'perHour'],
      [ann, 'perDay'],
      [ann, 'perHour'],
    ] as const)
      launched.push(await instances.launch(caller, world.launchInput({ billing: { chargeMode, duration: 1 } }), null));
    const [first, , last] = launched;
    await instances.stop(world.caller, { instanceId: first?.instanceId ?? '' }, null);
    await instances.terminate(ann, { instanceId: last?.instanceId ?? '' }, null);
    const { types } = await offeredTypes.list(all);
    const [cheapest] = types;
    if (!cheapest) throw new Error('no types');
    const { instanceTypeId, version } = cheapest;
    const dearer = { ...cheapest.prices, perHour: 9 };
    const preview = { instanceTypeId, version, dryRun: true, prices: dearer };
    const answer = await offeredTypes.update(world.caller, preview, null);
    expect(answer.affected).toEqual({ accounts: 2, running: 1, stopped: 1, atOtherPrice: 1 });
    expect(answer.type).toMatchObject({ version, prices: dearer });
    expect(await offeredTypes.list(all)).toMatchObject({ types });
    const ofImage = { imageId: world.imageId, version: 1, dryRun: true, retired: true };
    const { affected } = await offeredImages.retire(world.caller, ofImage, null);
    expect(affected).toEqual({ accounts: 2, running: 1, stopped: 1, atOtherPrice: 0 });
    const { regionId } = world.drivers;
    const ofRegion = await regionAdministration.update(
      world.caller,
      { regionId, version: 1, dryRun: true, name: 'x' },
      null,
    );
    expect(ofRegion.affected).toMatchObject({ accounts: 2, running: 1, stopped: 1 });
    await offeredTypes.update(world.caller, { ...preview, dryRun: false }, null);
    const kept = await world.store.read.selectFrom('instance').select('priceMicros').distinct().execute();
    expect(kept.map(({ priceMicros }) => priceMicros)).not.toContain(9_000_000);
    const [one] = await catalogInstanceTypes(world.store.read);
    expect(one?.pricesMicros.perHour).toBe(9_000_000n);
  });

  test('launches nothing after the answer of a retirement, by any process', async () => {
    const world = await makeWorld(await open(), {
      machine: { ...machine, cpuCores: 64, memoryMiB: 200 * 1024 },
      start: false,
    });
    const other = world.startAnother({ store: await open.again(world.store) }).control;
    const { control } = world.running;
    for (let round = 0; round < atLevel({ short: 2, long: 30 }); round++) {
      const { type } = await control.offeredTypes.create(world.caller, newType(world, `t${round}`), null);
      const { image } = await control.offeredImages.create(
        world.caller,
        { name: 'i', ref: `x.test/i:${round}`, tags: [] },
        null,
      );
      await eventually(async () =>
        (await other.images.list(world.caller, all)).images.some((one) => one.imageId === image.imageId),
      );
      const isImage = round % 2 === 1;
      let isRetired = false;
      const launches = Array.from({ length: 30 }, async (_, at) => {
        await new Promise((resolve) => setTimeout(resolve, at * 3));
        const sentAfter = isRetired;
        const given = { instanceTypeId: type.instanceTypeId, imageId: image.imageId };
        const by = at % 2 === 0 ? control : other;
        const done = await by.instances.launch(world.caller, world.launchInput(given), null).then(
          ({ instanceId }) => instanceId,
          (error: Refusal) => {
            expect(error.code).toBe('not_found');
          },
        );
        if (sentAfter) expect(done).toBeUndefined();
        return done;
      });
      const retired = { ...change, retired: true };
      await new Promise((resolve) => setTimeout(resolve, 40));
      await (isImage
        ? control.offeredImages.retire(world.caller, { imageId: image.imageId, ...retired }, null)
        : control.offeredTypes.retire(world.caller, { instanceTypeId: type.instanceTypeId, ...retired }, null));
      isRetired = true;
      const before = new Set(
        (await world.store.read.selectFrom('instance').select('id').execute()).map(({ id }) => id),
      );
      const made = (await Promise.all(launches)).filter((id) => id !== undefined);
      expect(
        made.filter((id) => !before.has(id)),
        'launched after the retirement',
      ).toEqual([]);
      for (const instanceId of made) await control.instances.terminate(world.caller, { instanceId }, null);
    }
  });

  test('keeps what administrators changed over restarts and upgrades, and adds what is new once', async () => {
    const store = await open();
    const world = await makeWorld(store, { machine, start: false });
    const { offeredTypes, offeredImages } = world.running.control;
    const [one, two] = (await offeredTypes.list(all)).types;
    if (!one || !two) throw new Error('no types');
    const dear = { ...one.prices, perHour: 7 };
    await offeredTypes.update(
      world.caller,
      { instanceTypeId: one.instanceTypeId, ...change, name: 'mine', prices: dear },
      null,
    );
    await offeredTypes.retire(world.caller, { instanceTypeId: two.instanceTypeId, ...change, retired: true }, null);
    await offeredTypes.create(world.caller, newType(world, 'cpu.4'), null);
    const rename = { imageId: world.imageId, ...change, name: 'ours' };
    await offeredImages.update(world.caller, rename, null);
    const before = await offeredTypes.list(all);

    const larger = { ...machine, cpuCores: 8, memoryMiB: 33 * 1024 };
    const shipped = firstRun.typesThatFit(larger);
    const start = async (ref: string) => {
      await firstRun.offerTypes(store, world.drivers.regionId, shipped, randomUUID);
      const image = { key: 'test', name: 'shipped', tags: ['new'], architecture: 'amd64', ref };
      return firstRun.offerImage(store, image, { nowMs: 1, uuid: randomUUID });
    };
    expect(await start('berth.local/test:2')).toBe(world.imageId);
    await start('berth.local/test:2');
    const { types } = await offeredTypes.list(all);
    expect(types.slice(0, 3)).toEqual(before.types);
    expect(types.slice(3).map(({ name }) => name)).toEqual(['cpu.8']);
    // The version before has no recipe any more, so the reference alone is of the new version.
    expect((await offeredImages.list(all)).images).toMatchObject([
      { name: 'ours', ref: 'berth.local/test:2', tags: [], version: 3 },
    ]);
    const own = { imageId: world.imageId, version: 3, dryRun: false, ref: 'registry.test/own:1' };
    await offeredImages.update(world.caller, own, null);
    await start('berth.local/test:3');
    expect((await offeredImages.list(all)).images).toMatchObject([{ ref: 'registry.test/own:1', version: 4 }]);
  });

  test('gives types of an unknown GPU the model once it is known, with their ids and prices', async () => {
    const store = await open();
    const world = await makeWorld(store, { machine, start: false });
    const { regionId } = world.drivers;
    const { offeredTypes } = world.running.control;
    const models = async () =>
      (await offeredTypes.list(all)).types.filter(({ gpuNum }) => gpuNum > 0).map(({ gpuName }) => gpuName);
    const found = (...names: string[]) =>
      firstRun.offerTypesOf(store, regionId, [{ ...machine, gpus: names.map((name) => ({ name })) }], {
        uuid: randomUUID,
      });
    await found('NVIDIA');
    const before = (await offeredTypes.list(all)).types.filter(({ gpuNum }) => gpuNum > 0);
    for (const unclear of [['NVIDIA'], ['NVIDIA', 'NVIDIA L4'], []]) {
      await found(...unclear);
      expect((await models()).slice(0, 1)).toEqual(['NVIDIA']);
    }
    await found('NVIDIA H200', 'NVIDIA L4');
    const after = (await offeredTypes.list(all)).types.filter(({ gpuNum }) => gpuNum > 0);
    expect(after.slice(0, 1)).toEqual(
      before.map((type) => ({ ...type, gpuName: 'NVIDIA H200', version: type.version + 1 })),
    );
  });

  test('adds types of a card in front of the first or in its place, and of the parts of a divided one', async () => {
    const store = await open();
    const world = await makeWorld(store, { machine, start: false });
    const { regionId } = world.drivers;
    const types = async () => {
      const { types } = await world.running.control.offeredTypes.list(all);
      return types.filter(({ gpuNum }) => gpuNum > 0).map(({ name, gpuName }) => [name, gpuName]);
    };
    const found = (...gpus: firstRun.Machine['gpus']) =>
      firstRun.offerTypesOf(store, regionId, [{ ...machine, gpus }], { uuid: randomUUID });
    const whole = { name: 'NVIDIA H200' };
    const turn = { name: 'NVIDIA H200 1/2', share: 0.5, slice: 'shared', card: whole.name } as const;
    const mig = { name: 'NVIDIA H200 MIG 3g.71gb', share: 0.5, slice: 'mig', card: whole.name } as const;
    await found(whole);
    expect(await types()).toEqual([['gpu.1', whole.name]]);
    await found(turn, turn);
    await found(mig, mig);
    await found({ name: 'NVIDIA L4' }, whole);
    await found({ name: 'NVIDIA A10' });
    expect(await types()).toEqual([
      ['gpu.1', whole.name],
      ['h200-1-2.1', turn.name],
      ['h200-mig-3g.71gb.1', mig.name],
      ['l4.1', 'NVIDIA L4'],
      ['a10.1', 'NVIDIA A10'],
    ]);
  });

  test('bounds the number of types, of concurrent requests too', async () => {
    const store = await open();
    const world = await makeWorld(store, { machine, start: false });
    const { offeredTypes } = world.running.control;
    const [row] = await store.read.selectFrom('instanceType').selectAll().execute();
    if (!row) throw new Error('no types');
    const rows = Array.from({ length: 995 }, (_, at) => ({ ...row, id: `t${at}`, name: `t${at}`, position: 10 + at }));
    await store.write(async (tx) => {
      for (let at = 0; at < rows.length; at += 100)
        await tx
          .insertInto('instanceType')
          .values(rows.slice(at, at + 100))
          .execute();
    });
    const made = await Promise.allSettled(
      Array.from({ length: 6 }, (_, at) => offeredTypes.create(world.caller, newType(world, `new.${at}`), null)),
    );
    const refused = made.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect(refused).toHaveLength(3);
    for (const refusal of refused) expect(refusal).toMatchObject({ code: 'over_quota', message: /limit is 1000/ });
    expect(await offeredTypes.list({ currentPage: 2, pageSize: 500 })).toMatchObject({
      totalEntries: 1_000,
      types: { length: 500 },
    });
    expect(await offered(world)).toHaveLength(1_000);
  });

  test('shows a changed region in instances, also after a restart, and off-peak hours in the catalog', async () => {
    const world = await makeWorld(await open(), { machine, hurry: 20 });
    const { regionAdministration, instances, catalog } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    const { regionId } = world.drivers;
    const offPeak = {
      timeZone: 'Europe/Berlin',
      windows: [{ days: ['mon' as const], start: '00:00', end: '24:00' }],
    };
    const facts = { name: 'Berlin', value: 'ber', location: 'DE', domain: 'gpu.example.org', offPeak };
    await regionAdministration.update(world.caller, { regionId, ...change, ...facts }, null);
    const shown = async () => (await world.instance(instanceId)).instanceSpecInfo.regionInfo;
    await eventually(async () => (await shown()).domain === 'gpu.example.org');
    expect(await shown()).toMatchObject({ name: 'Berlin', value: 'ber', location: 'DE' });
    const [family] = await catalog.families();
    const price = family?.regionInfos[0]?.instanceTypeInfos[0]?.price ?? [];
    expect(price.map((one) => Object.keys(one).join())).toEqual([
      'chargeMode,price,offPeak',
      ...Array.from({ length: 4 }, () => 'chargeMode,price'),
    ]);
    expect(price[0]?.offPeak).toEqual({ ...offPeak, now: expect.any(Boolean) });
    // As a start with other settings would.
    const region = { id: regionId, name: 'default', value: 'default', location: 'local', domain: 'settings.test' };
    await firstRun.saveDefaultRegion(
      world.store,
      { ...region, sshAddress: '192.0.2.7', engine: 'simulated' },
      machine,
      { nodePorts: { first: 1, last: 9 }, cpuOvercommit: 1 },
    );
    await world.again();
    await eventually(async () => (await shown()).sshAddress === '192.0.2.7');
    expect(await shown()).toMatchObject({ name: 'Berlin', domain: 'gpu.example.org' });
    const back = { regionId, version: 2, dryRun: false, domain: null, offPeak: null };
    const { region: after } = await world.running.control.regionAdministration.update(world.caller, back, null);
    expect(after).toMatchObject({ domain: 'settings.test', domainFrom: 'settings', offPeak: null, version: 3 });
    await eventually(async () => (await shown()).domain === 'settings.test');
  });
});

onBothEngines('a change of the catalog', (open) => {
  test('is refused with the reason and what would work', async () => {
    const world = await makeWorld(await open(), { machine });
    await eventually(() => world.drivers.health.answers);
    const { offeredTypes, offeredImages, regionAdministration } = world.running.control;
    const { caller } = world;
    const base = newType(world, 'half');
    const create = (over: object) => offeredTypes.create(caller, { ...base, ...over }, null);
    await expectRefused(create({ name: 'cpu.1' }), 'name_taken', /has the instance type cpu\.1/);
    await expectRefused(create({ gpuNum: 1 }), 'field_value', /"gpuName" is empty/);
    await expectRefused(create({ gpuName: 'A100' }), 'field_value', /"gpuNum" is 0/);
    await expectRefused(create({ regionId: 'nowhere' }), 'not_found', /region nowhere not found/);
    const { warnings } = await create({ name: 'huge', cpuCores: 512, gpuNum: 2, gpuName: 'A100', runtime: 'kata' });
    expect(warnings).toEqual([
      expect.stringMatching(/no launch of huge succeeds now: region \S+ lacks 510 CPU cores and 2 GPUs/),
      expect.stringMatching(/lacks the container runtime kata/),
    ]);
    await expectRefused(offeredTypes.update(caller, { instanceTypeId: 'x', ...change, name: 'y' }, null), 'not_found');
    const nothing = { instanceTypeId: (await offeredTypes.list(all)).types[0]?.instanceTypeId ?? '', ...change };
    await expectRefused(offeredTypes.update(caller, nothing, null), 'field_missing', /"prices"/);
    const imageOf = (ref: string) => offeredImages.create(caller, { name: 'n', ref, tags: [] }, null);
    await expectRefused(imageOf('missing.invalid/x:1'), 'field_value', /missing\.invalid/);
    await expectRefused(imageOf('denied.invalid/x:1'), 'field_value', /denied/);
    expect((await imageOf('unreachable.invalid/x:1')).warnings).toEqual([expect.stringMatching(/not checked yet/)]);
    const own = await world.running.control.images.create(caller, { name: 'own', ref: 'x.test/own:1' }, null);
    await expectRefused(offeredImages.retire(caller, { ...own, ...change, retired: true }, null), 'not_found');
    const overlap = { days: ['mon' as const], start: '01:00', end: '02:00' };
    const offPeak = { timeZone: 'UTC', windows: [overlap, overlap] };
    const { regionId } = world.drivers;
    await expectRefused(
      regionAdministration.update(caller, { regionId, ...change, offPeak }, null),
      'field_value',
      /overlaps/,
    );
  });
});
