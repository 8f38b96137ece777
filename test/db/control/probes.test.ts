import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { instanceId as asInstanceId } from '../../../src/domain/kernel/ids.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

function publicKey(comment: string): string {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const framed = (bytes: Buffer): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  };
  const blob = Buffer.concat([framed(Buffer.from('ssh-ed25519')), framed(Buffer.from(x, 'base64url'))]);
  return `ssh-ed25519 ${blob.toString('base64')} ${comment}`;
}

async function authorizedKeys(world: World, id: string): Promise<string> {
  const { stdout } = await world.engine.exec(
    asInstanceId(id),
    ['cat', '/etc/berth/authorized_keys'],
    AbortSignal.timeout(120_000),
  );
  return stdout;
}

onBothEngines('ssh keys', (open) => {
  test('reach running instances within a moment, and stopped ones at the next start', async () => {
    const world = await makeWorld(await open());
    const { access, instances } = world.running.control;
    const ids: string[] = [];
    for (let count = 0; count < 3; count++)
      ids.push((await instances.launch(world.caller, world.launchInput(), null)).instanceId);
    const [first = '', second = '', sleeper = ''] = ids;
    for (const id of ids) await world.until(id, hasStatus('Running'));
    await instances.stop(world.caller, { instanceId: sleeper }, null);
    await world.until(sleeper, hasStatus('Stopped'));
    const before = await world.engine.observe([asInstanceId(first)], AbortSignal.timeout(120_000));

    const line = publicKey('anna@laptop');
    const { sshKey } = await access.createSshKey(world.caller, { name: 'laptop', publicKey: line }, null);
    for (const id of [first, second]) await eventually(async () => (await authorizedKeys(world, id)) === `${line}\n`);
    // The container was not restarted.
    expect(await world.engine.observe([asInstanceId(first)], AbortSignal.timeout(120_000))).toEqual(before);
    expect((await world.instance(first)).instanceRuntimeInfo.status).toBe('Running');
    expect((await world.instance(sleeper)).instanceRuntimeInfo.status).toBe('Stopped');

    await instances.start(world.caller, { instanceId: sleeper }, null);
    await world.until(sleeper, hasStatus('Running'));
    expect(await authorizedKeys(world, sleeper)).toBe(`${line}\n`);

    await access.deleteSshKey(world.caller, { id: sshKey.id }, null);
    for (const id of ids) await eventually(async () => (await authorizedKeys(world, id)) === '');
    await settled(world);
    await expectConsistent(world);
  });

  test('reach an instance when added at any moment of its launch', async () => {
    const world = await makeWorld(await open());
    const { access, instances } = world.running.control;
    const lines: string[] = [];
    for (let round = 0; round < 5; round++) {
      const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
      await new Promise((resolve) => setTimeout(resolve, round * 7));
      lines.push(publicKey(`key ${round}`));
      await access.createSshKey(world.caller, { name: `key ${round}`, publicKey: lines.at(-1) ?? '' }, null);
      await world.until(instanceId, hasStatus('Running'));
      await eventually(
        async () => (await authorizedKeys(world, instanceId)) === lines.map((line) => `${line}\n`).join(''),
      );
      await instances.terminate(world.caller, { instanceId }, null);
    }
    await settled(world);
    await expectConsistent(world);
  });

  test("other accounts' keys change nothing", async () => {
    const world = await makeWorld(await open());
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    const otherAccount = await world.account('stranger');
    await settled(world);
    const before = await world.store.read
      .selectFrom('instance')
      .select(['generation', 'filesStale', 'publicText'])
      .executeTakeFirstOrThrow();
    await world.running.control.access.createSshKey(otherAccount, { name: 'key', publicKey: publicKey('x') }, null);
    expect(
      await world.store.read
        .selectFrom('instance')
        .select(['generation', 'filesStale', 'publicText'])
        .executeTakeFirstOrThrow(),
    ).toEqual(before);
  });
});

onEngine('sqlite', 'an init script', (open) => {
  const launch = async (world: World, initScript: string): Promise<string> => {
    const request = world.launchInput({
      instanceConfiguration: { ...world.launchInput().instanceConfiguration, initScript },
    });
    return (await world.running.control.instances.launch(world.caller, request, null)).instanceId;
  };
  const message = (world: World, id: string, text: string) =>
    world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.message === text);

  test('reports a running init script, and its exit code afterwards', async () => {
    const world = await makeWorld(await open());
    const id = await launch(world, '# berth-sim: exit 7 after 600ms');
    const running = await world.until(id, hasStatus('Running'));
    expect(running.instanceRuntimeInfo).toMatchObject({ message: 'the init script is running', healthy: true });
    await message(world, id, 'the init script exited with code 7');
    await settled(world);
    const row = await world.store.read.selectFrom('instance').select('initExit').executeTakeFirstOrThrow();
    expect(row.initExit).toBe(7);
    await world.running.control.instances.restart(world.caller, { instanceId: id }, null);
    const again = await world.until(id, hasStatus('Running'));
    expect(again.instanceRuntimeInfo.message).toBe('the init script exited with code 7');
  });

  test('reports each run of the init script where the root disk ends with the container', async () => {
    const world = await makeWorld(await open(), { capabilities: { keepsRootDisk: false, saveImage: false } });
    const id = await launch(world, '# berth-sim: exit 7 after 600ms');
    await message(world, id, 'the init script exited with code 7');
    await world.running.control.instances.restart(world.caller, { instanceId: id }, null);
    const again = await world.until(id, hasStatus('Running'));
    expect(again.instanceRuntimeInfo.message).toBe('the init script is running');
    await message(world, id, 'the init script exited with code 7');
    await settled(world);
  });

  test("reports an init script cut short by a stop as lost after the next start, and doesn't rerun it", async () => {
    const world = await makeWorld(await open());
    const id = await launch(world, '# berth-sim: exit 0 after 60s');
    await world.until(id, hasStatus('Running'));
    await world.running.control.instances.stop(world.caller, { instanceId: id }, null);
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo.message).toBe('');
    await world.running.control.instances.start(world.caller, { instanceId: id }, null);
    await message(world, id, 'a stop interrupted the init script, which does not run again');
    await settled(world);
  });
});
