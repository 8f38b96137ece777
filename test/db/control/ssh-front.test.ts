/** Images without sshd: served ssh, as one stable host, for the account's keys. */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { Client, utils } from 'ssh2';
import { expect, onTestFinished, test } from 'vitest';
import type { GatewayRoute, RouteUpdate } from '../../../src/control/index.ts';
import { makeSshHostKeys } from '../../../src/control/routing/ssh-host-key.ts';
import { instanceId, type InstanceId } from '../../../src/domain/ids.ts';
import { makeSshFronts } from '../../../src/edge/ssh/fronts.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

/** From ssh-keygen, as ssh2's own are malformed now and then. */
function makeKey(): { private: string; public: string } {
  const text = makeSshHostKeys(randomBytes(32))('key');
  const key = utils.parseKey(text);
  if (key instanceof Error) throw key;
  return { private: text, public: `ssh-ed25519 ${key.getPublicSSH().toString('base64')}` };
}

const ID = instanceId('11111111-1111-4111-8111-111111111111');

test('derives host keys readable by OpenSSH, stable, and distinct per instance and installation', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-host-key-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const hostKey = makeSshHostKeys(new Uint8Array(32).fill(1));
  const file = join(folder, 'key');
  const publicOf = async (text: string): Promise<string> => {
    await writeFile(file, text, { mode: 0o600 });
    return execFileSync('ssh-keygen', ['-y', '-f', file], { encoding: 'utf8' }).trim();
  };
  const mine = await publicOf(hostKey(ID));
  expect(mine).toMatch(/^ssh-ed25519 [A-Za-z0-9+/]+$/);
  expect(hostKey(ID)).toBe(makeSshHostKeys(new Uint8Array(32).fill(1))(ID));
  expect(await publicOf(hostKey('another'))).not.toBe(mine);
  for (let count = 0; count < 300; count++) expect(utils.parseKey(hostKey(`${count}`))).not.toBeInstanceOf(Error);
  expect(await publicOf(makeSshHostKeys(new Uint8Array(32).fill(2))(ID))).not.toBe(mine);
});

onBothEngines('ssh for images without sshd', (open) => {
  const withoutSshd = (world: World) =>
    world.launchInput({
      instanceConfiguration: { ...world.launchInput().instanceConfiguration, initScript: '# berth-sim: no ssh' },
    });
  const routeOf = (world: World, id: string): Promise<GatewayRoute | null> =>
    world.running.control.forwarding.route(id);
  const banner = async (world: World, id: InstanceId): Promise<string> => {
    const stream = await world.engine.dial(id, 22, AbortSignal.timeout(120_000));
    const [bytes]: Buffer[] = await once(stream, 'data');
    stream.destroy();
    return String(bytes);
  };
  const keyFor = async (world: World): Promise<{ id: string; private: string }> => {
    const made = makeKey();
    const { access } = world.running.control;
    const { sshKey } = await access.createSshKey(world.caller, { name: 'laptop', publicKey: made.public }, null);
    return { id: sshKey.id, private: made.private };
  };

  /** Acts as the gateway's process. */
  function serveSsh(world: World): void {
    const { routeTable, forwarding } = world.running.control;
    const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
    const fronts = makeSshFronts({
      backend: world.engine,
      access: forwarding.ssh,
      log,
      files: 1_000,
      checkEveryMs: 100,
    });
    const ending = new AbortController();
    const following = routeTable.follow((reported: RouteUpdate) => fronts.update(reported), ending.signal);
    onTestFinished(async () => {
      ending.abort();
      await following;
      await fronts.stop();
    });
  }

  async function login(world: World, id: InstanceId, privateKey: string): Promise<{ client: Client; hostKey: string }> {
    const client = new Client();
    onTestFinished(() => void client.destroy());
    let hostKey = '';
    const hostVerifier = (key: Buffer): boolean => (hostKey = key.toString('base64')) !== '';
    const sock = await world.engine.dial(id, 22, AbortSignal.timeout(120_000));
    const failed = once(client, 'error').then(([error]: Error[]) => {
      throw error ?? new Error('no reason');
    });
    client.connect({ sock, username: 'root', privateKey, hostVerifier });
    await Promise.race([once(client, 'ready'), failed]);
    return { client, hostKey };
  }

  test("serves ssh for an image without sshd, as one host through stop and start; health stays the notebook's", async () => {
    const world = await makeWorld(await open(), { limits: { sshFrontMs: 5_000 } });
    serveSsh(world);
    const key = await keyFor(world);
    const id = instanceId(
      (await world.running.control.instances.launch(world.caller, withoutSshd(world), null)).instanceId,
    );
    await world.until(id, hasStatus('Running'));
    expect(await banner(world, id)).toMatch(/^SSH-2\.0-Berth/);
    const first = await login(world, id, key.private);
    const row = await world.store.read
      .selectFrom('instance')
      .select('observed')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(JSON.parse(row.observed)).toMatchObject({ answersBy: 'notebook', sshFront: true });
    const left = once(first.client, 'close');
    await world.running.control.instances.stop(world.caller, { instanceId: id }, null);
    await left;
    await world.until(id, hasStatus('Stopped'));
    expect(await routeOf(world, id)).toMatchObject({ sshFront: false });
    await world.running.control.instances.start(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    const again = await login(world, id, key.private);
    expect(again.hostKey).toBe(first.hostKey);
    const { access } = world.running.control;
    const cut = once(again.client, 'end');
    await access.deleteSshKey(world.caller, { id: key.id }, null);
    await cut;
    await expect(login(world, id, key.private)).rejects.toThrow(/authentication methods failed/);
  });

  test('becomes ready without an ssh front, and keeps asking for one', async () => {
    const world = await makeWorld(await open());
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, withoutSshd(world), null);
    await world.until(id, hasStatus('Running'));
    expect(await routeOf(world, id)).toMatchObject({ sshFront: true });
  });

  test('serves no ssh for an image with sshd, or an engine without network access', async () => {
    const world = await makeWorld(await open(), { capabilities: { joinNetwork: false } });
    const { instances } = world.running.control;
    const { instanceId: without } = await instances.launch(world.caller, withoutSshd(world), null);
    const { instanceId: has } = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(without, hasStatus('Running'));
    await world.until(has, hasStatus('Running'));
    expect(await routeOf(world, without)).toMatchObject({ sshFront: false });
    expect(await routeOf(world, has)).toMatchObject({ sshFront: false });
  });

  test("accepts the account's keys, none while disabled, and reveals nothing of a removed instance", async () => {
    const world = await makeWorld(await open());
    const { instances, forwarding } = world.running.control;
    const { instanceId: id } = await instances.launch(world.caller, world.launchInput(), null);
    expect(await forwarding.ssh(id)).toMatchObject({ keys: [] });
    const made = makeKey();
    const publicKey = `${made.public} somebody@somewhere`;
    await world.running.control.access.createSshKey(world.caller, { name: 'one', publicKey }, null);
    const stranger = await world.account('stranger');
    await world.running.control.access.createSshKey(stranger, { name: 'theirs', publicKey: makeKey().public }, null);
    const identity = await forwarding.ssh(id);
    expect(identity).toMatchObject({ keys: [made.public.split(' ')[1]] });
    expect(identity?.hostKey).toMatch(/^-----BEGIN OPENSSH PRIVATE KEY-----\n/);
    await world.store.write(async (tx) => {
      await tx.updateTable('account').set({ disabled: 1 }).where('id', '=', world.caller.accountId).execute();
    });
    expect(await forwarding.ssh(id)).toMatchObject({ keys: [] });
    await world.store.write(async (tx) => {
      await tx.updateTable('account').set({ disabled: 0 }).where('id', '=', world.caller.accountId).execute();
    });
    await instances.terminate(world.caller, { instanceId: id }, null);
    expect(await forwarding.ssh(id)).toBeNull();
    expect(await forwarding.ssh('nothing')).toBeNull();
  });
});
