import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Caller, Idempotency } from '../../../src/control/index.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import type { RefusalCode } from '../../../src/domain/kernel/refusal.ts';
import { regionId } from '../../../src/domain/kernel/ids.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { saveRegion } from '../../../src/store/tables/catalog.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { volumeRow } from '../store/rows.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, pictureOf, settled } from './consistency.ts';
import { replaceTypes } from '../../fixtures/catalog.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const keyed = (key: string, bodyHash = 'a body', route = 'POST /instance/create'): Idempotency => ({
  key,
  route,
  bodyHash,
});

const mounting = (mountPath: string, remoteStorageId: string): LaunchInput['remoteStorages'][number] => ({
  mountPath,
  remoteStorageName: 'v',
  remoteStorageId,
  type: 'filesystem',
});

/** Second region with a type of its own and no engine. */
async function elsewhere(world: World): Promise<{ region: string; typeId: string }> {
  const id = regionId(randomUUID());
  const facts = {
    id,
    name: 'far',
    value: 'far',
    location: 'far',
    domain: 'far.test',
    sshAddress: '192.0.2.2',
    engine: 'simulated',
  } as const;
  await world.store.write((tx) =>
    saveRegion(tx, facts, { cpuMilli: 1_000, memoryMiB: 1_024, gpus: {}, nodePorts: 10 }),
  );
  const [type] = world.types;
  if (!type) throw new Error('there are no types');
  const [saved] = await replaceTypes(world.store, id, [{ ...type, name: 'far.1' }]);
  return { region: id, typeId: saved?.id ?? '' };
}

async function volumeOf(
  world: World,
  caller: Caller,
  name: string,
  region: string = world.drivers.regionId,
): Promise<string> {
  const body = { name, sizeGB: 1, region, volumeType: 'filesystem' } as const;
  const { volumeText } = await world.running.control.volumes.create(caller, body, null);
  const { id }: { id: string } = JSON.parse(volumeText);
  return id;
}

async function farVolume({ store, caller }: World, region: string): Promise<string> {
  const row = volumeRow({ id: randomUUID(), ownerId: caller.accountId, regionId: region, status: 'Bound', listed: 0 });
  await store.write((tx) => tx.insertInto('volume').values(row).execute());
  return row.id;
}

onBothEngines('a launch', (open) => {
  test('a hundred concurrent launches with one key run once, with one answer', async () => {
    const world = await makeWorld(await open());
    const launches = Array.from({ length: 100 }, () =>
      world.running.control.instances.launch(world.caller, world.launchInput(), keyed('one')),
    );
    const answers = new Set((await Promise.all(launches)).map(({ instanceId }) => instanceId));
    expect(answers.size).toBe(1);
    expect(await world.running.control.instances.list(world.caller, { currentPage: 1, pageSize: 10 })).toMatchObject({
      totalEntries: 1,
    });
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses a used key with another body or route, and repeats the answer after a catalog change', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    const { instances } = world.running.control;
    const first = await instances.launch(world.caller, world.launchInput(), keyed('one'));
    await expectRefused(
      instances.launch(world.caller, world.launchInput({ name: 'other' }), keyed('one', 'another body')),
      'idempotency_mismatch',
      /another body/,
    );
    await expectRefused(
      instances.stop(world.caller, first, keyed('one', 'a body', 'POST /instance/stop')),
      'idempotency_mismatch',
      /POST \/instance\/create/,
    );
    await world.store.write((tx) => tx.updateTable('image').set({ inCatalog: 0 }).execute());
    clock.aheadMs = 2_000;
    await expectRefused(instances.launch(world.caller, world.launchInput(), null), 'not_found', /image/);
    expect(await instances.launch(world.caller, world.launchInput(), keyed('one'))).toEqual(first);
  });

  test('forgets the key of a refused launch, so it may be sent again', async () => {
    const world = await makeWorld(await open());
    const poor = await world.account('poor', 0);
    const { instances } = world.running.control;
    await expectRefused(instances.launch(poor, world.launchInput(), keyed('one')), 'no_balance');
    expect(await world.store.read.selectFrom('idempotency').selectAll().execute()).toEqual([]);
    const { credits } = world.running.control;
    await credits.give(world.caller, { username: 'poor', amount: 1, kind: 'cash', reason: 'a first dollar' }, null);
    await instances.launch(poor, world.launchInput(), keyed('one'));
  });

  test('a refused launch names the problem and changes nothing in the database', async () => {
    const world = await makeWorld(await open(), { capabilities: { dockerInside: false } });
    await eventually(() => world.drivers.health.answers);
    const far = await elsewhere(world);
    const otherAccount = await world.account('stranger');
    const [mine, lost, theirs, farAway] = await Promise.all([
      volumeOf(world, world.caller, 'mine'),
      volumeOf(world, world.caller, 'lost'),
      volumeOf(world, otherAccount, 'theirs'),
      farVolume(world, far.region),
    ]);
    await settled(world);
    await world.store.write((tx) => tx.updateTable('volume').set({ status: 'Lost' }).where('id', '=', lost).execute());
    const nowhere = randomUUID();
    const configuration = world.launchInput().instanceConfiguration;
    const at = (mountPath: string, id = mine): Partial<LaunchInput> => ({ remoteStorages: [mounting(mountPath, id)] });
    const refused: [Partial<LaunchInput>, RefusalCode, RegExp][] = [
      [{ imageId: nowhere }, 'not_found', new RegExp(`image ${nowhere} not found`)],
      [{ instanceTypeId: nowhere }, 'not_found', new RegExp(`instance type ${nowhere} not found`)],
      [{ region: nowhere }, 'not_found', new RegExp(`region ${nowhere} not found`)],
      [at('/root/v', nowhere), 'not_found', new RegExp(`volume ${nowhere}`)],
      [at('/root/v', theirs), 'not_found', new RegExp(`volume ${theirs}.*not found`)],
      [at('/root/v', farAway), 'field_value', new RegExp(`is in region ${far.region}`)],
      [at('/root/v', lost), 'not_now', /Lost/],
      [{ isSpotInstance: true }, 'field_value', /not a spot type: send isSpotInstance false/],
      [
        { instanceConfiguration: { ...configuration, enableDocker: true } },
        'unsupported',
        /cannot run Docker inside instances: its engine does not support it; send false/,
      ],
      [at('//'), 'field_value', /is "\/": it is a path that the instance itself needs/],
      [at('relative'), 'field_value', /remoteStorages\[0\].mountPath.*must be absolute/],
      [at('/root/a/../b'), 'field_value', /\.\./],
      [at('/etc/'), 'field_value', /lies in \/etc/],
      [
        { remoteStorages: [mounting('/root/a', mine), mounting('/root/a/b', mine)] },
        'field_value',
        /mounts \/root\/a\/b inside \/root\/a/,
      ],
      [
        { remoteStorages: [mounting('/root/a', mine), mounting('/root/a/', mine)] },
        'field_value',
        /mounts \/root\/a inside \/root\/a/,
      ],
    ];
    const before = await pictureOf(world.store);
    for (const [over, code, words] of refused) {
      await expectRefused(
        world.running.control.instances.launch(world.caller, world.launchInput(over), keyed(randomUUID())),
        code,
        words,
      );
    }
    expect(await pictureOf(world.store)).toEqual(before);
  });

  test('mounts one volume at two paths', async () => {
    const world = await makeWorld(await open());
    const { volumes, instances } = world.running.control;
    const request = { name: 'v', sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' as const };
    const { volumeText } = await volumes.create(world.caller, request, null);
    const { id }: { id: string } = JSON.parse(volumeText);
    const asked: EngineSpec[] = [];
    const { ensure } = world.engine;
    world.engine.ensure = (spec, signal) => (asked.push(spec), ensure(spec, signal));
    const remoteStorages = [mounting('/root/a', id), mounting('/root/b/', id)];
    const { instanceId: one } = await instances.launch(world.caller, world.launchInput({ remoteStorages }), null);
    await world.until(one, hasStatus('Running'));
    const mounts = asked[0]?.mounts.filter(({ source }) => source.includes(id)) ?? [];
    expect(mounts.map(({ target }) => target)).toEqual(['/root/a', '/root/b']);
    expect(new Set(mounts.map(({ source }) => source)).size).toBe(1);
  });

  test('refuses a type of another region', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    const far = await elsewhere(world);
    clock.aheadMs = 2_000;
    await expectRefused(
      world.running.control.instances.launch(world.caller, world.launchInput({ instanceTypeId: far.typeId }), null),
      'not_found',
      /is not offered in region/,
    );
  });

  test('refuses common data where the region has none, and names a way', async () => {
    const world = await makeWorld(await open());
    world.drivers.commonDataFolder = null;
    const { instanceConfiguration } = world.launchInput();
    const asking = world.launchInput({ instanceConfiguration: { ...instanceConfiguration, enableCommonData: true } });
    await expectRefused(
      world.running.control.instances.launch(world.caller, asking, null),
      'unsupported',
      /enableCommonData" is true, but region .* has no common data.*send false, and keep the data in a volume/,
    );
    await world.running.control.instances.launch(world.caller, world.launchInput(), null);
  });

  test("refuses Docker while the engine's support is unknown", async () => {
    const world = await makeWorld(await open(), { start: false });
    const configuration = world.launchInput().instanceConfiguration;
    await expectRefused(
      world.running.control.instances.launch(
        world.caller,
        world.launchInput({ instanceConfiguration: { ...configuration, enableDocker: true } }),
        null,
      ),
      'unavailable',
      /does not answer/,
    );
  });

  test('reserves no node ports when too few are left, and continues once enough are free', async () => {
    const world = await makeWorld(await open(), { nodePorts: { first: 30_000, last: 30_002 } });
    const { instances } = world.running.control;
    const other = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(other.instanceId, hasStatus('Running'));
    // Taken without the counter, as by rows of a former port range.
    const ports = world.store.read.selectFrom('nodePort').select(['nodePort', 'instanceId']);
    const [first] = await ports.execute();
    const nodePort = first?.nodePort === 30_000 ? 30_001 : 30_000;
    const row = { regionId: world.drivers.regionId, instanceId: other.instanceId, port: 1, nodePort };
    await world.store.write((tx) => tx.insertInto('nodePort').values(row).execute());
    const one = await instances.launch(world.caller, world.launchInput({ nodePorts: [80] }), null);
    await world.until(one.instanceId, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'PortTaken');
    expect((await ports.execute()).map(({ instanceId }) => instanceId)).toEqual([other.instanceId, other.instanceId]);
    await world.store.write((tx) => tx.deleteFrom('nodePort').where('nodePort', '=', nodePort).execute());
    await world.until(one.instanceId, hasStatus('Running', 'InitializationFailed'));
    if (hasStatus('InitializationFailed')(await world.instance(one.instanceId))) {
      await instances.start(world.caller, one, null);
    }
    await world.until(one.instanceId, hasStatus('Running'));
  });

  test('refuses too many node ports with the number left', async () => {
    const world = await makeWorld(await open(), { nodePorts: { first: 30_000, last: 30_002 } });
    const { instances } = world.running.control;
    const first = await instances.launch(world.caller, world.launchInput({ nodePorts: [8000] }), null);
    await expectRefused(
      instances.launch(world.caller, world.launchInput({ nodePorts: [8000] }), null),
      'no_capacity',
      /1 free node ports, and the launch needs 2/,
    );
    const second = await instances.launch(world.caller, world.launchInput(), null);
    for (const { instanceId } of [first, second]) await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
    await instances.terminate(world.caller, first, null);
    await world.until(first.instanceId, ({ instanceRuntimeInfo: { phase } }) => phase === 'Cleaned');
    const third = await instances.launch(world.caller, world.launchInput({ nodePorts: [8000] }), null);
    await world.until(third.instanceId, hasStatus('Running'));
  });
});
