import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import type { VariableChange } from '../../../src/control/compute/instances/environment.ts';
import { makeSeal } from '../../../src/control/kernel/seal.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { settled } from './consistency.ts';
import { expectRefused } from './access-fixture.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const change = (given: Partial<VariableChange>): VariableChange => ({
  environment: {},
  secrets: {},
  names: [],
  ...given,
});
const SECRET = 'do-not-tell';

async function launched(world: World, over = {}): Promise<string> {
  const { control } = world.running;
  const { instanceId } = await control.instances.launch(world.caller, world.launchInput(over), null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

/** Content of the file that the instance's shells read. */
const SIZES = ['OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'NUMEXPR_NUM_THREADS', 'PYTHON_CPU_COUNT'];

async function fileOf({ running, caller }: World, instanceId: string): Promise<string> {
  const request = { instanceId, command: ['cat', '/etc/berth/env'], env: [], stdin: Buffer.of() };
  const limits = { limitMs: 60_000, maxOutputBytes: 1_000_000 };
  const { stdout } = await running.control.commands.run(caller, { ...request, ...limits }, AbortSignal.timeout(60_000));
  return stdout.bytes.toString();
}

onBothEngines('environment', (open) => {
  test('gives an instance the variables of all layers, the later over the earlier', async () => {
    const world = await makeWorld(await open());
    const { caller } = world;
    const { environments } = world.running.control;
    await environments.change(caller, 'installation', change({ environment: { A: 'i', B: 'i', C: 'i' } }), null);
    await environments.change(caller, 'account', change({ environment: { B: 'a', C: 'a' } }), null);
    const id = await launched(world, { environment: { C: 'own' }, secrets: { TOKEN: SECRET } });
    const other = await world.account('other');
    await environments.change(other, 'account', change({ environment: { A: 'theirs' } }), null);
    const sizes = SIZES.map((name) => `export ${name}='1'\n`).join('');
    const prefix = `/forward/${id}/{port}`;
    const ports = `export BERTH_PORT_PREFIX='${prefix}'\nexport BERTH_PORT_URL='http://gateway.test${prefix}/'\n`;
    const own = `export BERTH_INSTANCE_ID='${id}'\nexport BERTH_BASE_URL='/notebook/${id}/'\n${ports}${sizes}`;
    expect(await fileOf(world, id)).toBe(
      `${own}export A='i'\nexport B='a'\nexport C='own'\nexport TOKEN='${SECRET}'\n`,
    );
    const listed = await environments.list(caller, { instanceId: id });
    const withoutSizes = listed.filter(({ name }) => !SIZES.includes(name));
    expect(withoutSizes.map(({ name, value, from, isSecret }) => [name, value, from, isSecret])).toEqual([
      ['A', 'i', 'installation', false],
      ['B', 'a', 'account', false],
      ['BERTH_BASE_URL', `/notebook/${id}/`, 'berth', false],
      ['BERTH_INSTANCE_ID', id, 'berth', false],
      ['BERTH_PORT_PREFIX', prefix, 'berth', false],
      ['BERTH_PORT_URL', `http://gateway.test${prefix}/`, 'berth', false],
      ['C', 'own', 'instance', false],
      ['TOKEN', null, 'instance', true],
    ]);
    expect((await environments.list(caller, 'account')).map(({ name }) => name)).toEqual(['B', 'C']);
    await expectRefused(environments.list(other, { instanceId: id }), 'not_found', /not found/);
    await expectRefused(environments.change(other, { instanceId: id }, change({}), null), 'not_found', /not found/);
  });

  test('brings a change to running instances, and says to how many', async () => {
    const world = await makeWorld(await open());
    const { environments, instances } = world.running.control;
    const id = await launched(world, { environment: { A: '1' } });
    const stopped = await launched(world);
    await instances.stop(world.caller, { instanceId: stopped }, null);
    await world.until(stopped, hasStatus('Stopped'));
    const { caller } = world;
    expect(await environments.change(caller, 'account', change({ environment: { B: '2' } }), null)).toEqual({
      runningInstances: 1,
    });
    await eventually(async () => (await fileOf(world, id)).endsWith("export B='2'\nexport A='1'\n"));
    const own = { instanceId: id };
    expect(await environments.change(caller, own, change({ names: ['A', 'UNKNOWN'] }), null)).toEqual({
      runningInstances: 1,
    });
    await eventually(async () => !(await fileOf(world, id)).includes('A='));
    const ofStopped = await environments.change(caller, { instanceId: stopped }, change({ secrets: { S: 's' } }), null);
    expect(ofStopped).toEqual({ runningInstances: 0 });
    await instances.start(caller, { instanceId: stopped }, null);
    await world.until(stopped, hasStatus('Running'));
    expect(await fileOf(world, stopped)).toMatch(/export B='2'\nexport S='s'\n$/);
  });

  test('brings the last of many quick changes', async () => {
    const world = await makeWorld(await open());
    const { environments } = world.running.control;
    const id = await launched(world);
    for (let last = 1; last <= atLevel({ short: 20, long: 100 }); last++) {
      const given = change({ environment: { LAST: String(last) } });
      const changed = await environments.change(world.caller, { instanceId: id }, given, null);
      expect(changed).toEqual({ runningInstances: 1 });
      if (last % 10 === 0) await eventually(async () => (await fileOf(world, id)).endsWith(`LAST='${last}'\n`));
    }
  });

  test('comes to rest, with the last values, when the instance changes while its files are written', async () => {
    const world = await makeWorld(await open());
    const { environments, stopPolicies } = world.running.control;
    const id = await launched(world);
    await settled(world);
    let writes = 0;
    world.engine.misbehave(({ verb }) => {
      if (verb !== 'ensure') return undefined;
      writes += 1;
      return { mode: 'slow', ms: 150 };
    });
    await environments.change(world.caller, { instanceId: id }, change({ environment: { A: '1' } }), null);
    await eventually(async () => writes === 1);
    await stopPolicies.set(world.caller, id, { maxRunMs: 3_600_000 });
    await settled(world);
    expect(await fileOf(world, id)).toContain("A='1'");
    expect(writes).toBe(2);
  });

  test('keeps a secret out of every row, and deletes it with its instance', async () => {
    const world = await makeWorld(await open());
    const { environments, instances } = world.running.control;
    const keyed = { key: 'k', route: '/user/environment/set', bodyHash: 'h' };
    const given = change({ secrets: { TOKEN: SECRET } });
    const first = await environments.change(world.caller, 'account', given, keyed);
    expect(await environments.change(world.caller, 'account', given, keyed)).toEqual(first);
    const id = await launched(world, { secrets: { OWN: SECRET } });
    const tables = ['variable', 'instance', 'event', 'idempotency', 'operation', 'account', 'setting'] as const;
    const dump = async (): Promise<string> =>
      JSON.stringify(
        await Promise.all(tables.map((table) => world.store.read.selectFrom(table).selectAll().execute())),
      );
    expect(await dump()).toContain('"OWN"');
    expect(await dump()).not.toContain(SECRET);
    expect(JSON.stringify(await instances.get(world.caller, { instanceId: id }))).not.toMatch(/do-not-tell|OWN/);
    await instances.terminate(world.caller, { instanceId: id }, null);
    expect(await dump()).not.toContain('"OWN"');
    expect(await dump()).toContain('"TOKEN"');
  });

  test('refuses what is too much together, in the launch too, and changes nothing', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { environments, instances } = world.running.control;
    const many = (prefix: string, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`${prefix}${at}`, 'x']));
    const { caller } = world;
    await environments.change(caller, 'account', change({ environment: many('A', 200) }), null);
    const more = environments.change(caller, 'account', change({ environment: many('B', 57) }), null);
    await expectRefused(more, 'field_value', /257 variables, and the limit is 256; delete some first/);
    expect(await environments.list(caller, 'account')).toHaveLength(200);
    await environments.change(caller, 'account', change({ environment: many('B', 57), names: ['A1'] }), null);
    const both = world.launchInput({ environment: { A: 'x' }, secrets: { A: 'y' } });
    await expectRefused(instances.launch(caller, both, null), 'field_value', /A is both in "environment" and in/);
    const large = world.launchInput({ environment: many('A', 200), secrets: many('S', 100) });
    await expectRefused(instances.launch(caller, large, null), 'field_value', /300 variables/);
    expect((await instances.list(caller, { currentPage: 1, pageSize: 10 })).totalEntries).toBe(0);
  });

  test('starts without a value whose key is lost, and names it', async () => {
    const world = await makeWorld(await open());
    const { environments } = world.running.control;
    await environments.change(world.caller, 'account', change({ secrets: { TOKEN: SECRET, OTHER: 'x' } }), null);
    const sealed = makeSeal({ key: new Uint8Array(32).fill(9), randomBytes }).seal(SECRET, 'another');
    await world.store.write(async (tx) => {
      await tx.updateTable('variable').set({ sealed }).where('name', '=', 'TOKEN').execute();
    });
    const id = await launched(world);
    expect(await fileOf(world, id)).toMatch(/OTHER='x'\n$/);
    expect(await fileOf(world, id)).not.toMatch(/TOKEN/);
    const listed = await environments.list(world.caller, 'account');
    expect(listed.map(({ name, isLost }) => [name, isLost])).toEqual([
      ['OTHER', false],
      ['TOKEN', true],
    ]);
  });
});
