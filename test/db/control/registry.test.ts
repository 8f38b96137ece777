/** Registry credentials: one for each server of an account, sealed at rest, never shown again. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { makeIdempotent } from '../../../src/control/kernel/idempotent.ts';
import { makeRegistries } from '../../../src/control/regions/images/registries.ts';
import { makeSeal } from '../../../src/control/kernel/seal.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { pictureOf } from './consistency.ts';
import { makeWorld } from '../../fixtures/control.ts';

const SECRET = 'the tide is out';
const request = { server: 'registry.example.org', username: 'ada', secret: SECRET };

onBothEngines('registry credentials', (open) => {
  test('are listed without their secret, which the database stores encrypted only', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { registries } = world.running.control;
    const made = await registries.create(world.caller, request, null);
    expect(made).toEqual({ registry: { id: expect.any(String), server: request.server, username: 'ada' } });
    expect(await registries.list(world.caller)).toEqual({
      registries: [{ ...made.registry, createdAt: expect.any(Number) }],
    });
    const rows = await world.store.read.selectFrom('registryCredential').selectAll().execute();
    expect(JSON.stringify([rows, await pictureOf(world.store)])).not.toContain(SECRET);
  });

  test('authorize pulls of their account from their server only', async () => {
    const world = await makeWorld(await open(), { start: false });
    const other = await world.account('bob');
    const registries = registriesOf(world.store, randomBytes(32));
    await registries.create(world.caller, request, null);
    const mine = await registries.credentialsFor(world.caller.accountId, request.server);
    expect(mine).toEqual({ username: 'ada', secret: SECRET });
    expect(await registries.credentialsFor(world.caller.accountId, 'docker.io')).toBeUndefined();
    expect(await registries.credentialsFor(other.accountId, request.server)).toBeUndefined();
  });

  test('are denied with the reason when their key was lost, and nothing else fails', async () => {
    const world = await makeWorld(await open(), { start: false });
    await registriesOf(world.store, randomBytes(32)).create(world.caller, request, null);
    const after = registriesOf(world.store, randomBytes(32));
    await expect(after.credentialsFor(world.caller.accountId, request.server)).rejects.toMatchObject({
      kind: 'denied',
      reason: 'imageDenied',
      message: expect.stringMatching(/cannot be decrypted/),
    });
    expect((await after.list(world.caller)).registries).toHaveLength(1);
  });

  test("can't be decrypted for another account", async () => {
    const world = await makeWorld(await open(), { start: false });
    const thief = await world.account('thief');
    const registries = registriesOf(world.store, randomBytes(32));
    await registries.create(world.caller, request, null);
    await registries.create(thief, { ...request, secret: 'nothing' }, null);
    const { secret } = await world.store.read
      .selectFrom('registryCredential')
      .select('secret')
      .where('accountId', '=', world.caller.accountId)
      .executeTakeFirstOrThrow();
    await world.store.write((tx) =>
      tx.updateTable('registryCredential').set({ secret }).where('accountId', '=', thief.accountId).execute(),
    );
    await expect(registries.credentialsFor(thief.accountId, request.server)).rejects.toMatchObject({ kind: 'denied' });
  });

  test('are unique per server, also under concurrent requests and other names of the server', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { registries } = world.running.control;
    const names = ['docker.io', 'Docker.IO', 'index.docker.io', 'registry-1.docker.io'];
    const tries = names.map((server) => registries.create(world.caller, { ...request, server }, null));
    const outcomes = await Promise.allSettled(tries);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        expect(outcome.reason).toMatchObject({ code: 'name_taken', message: expect.stringMatching(/delete/) });
    const { registries: listed } = await registries.list(world.caller);
    expect(listed.map(({ server }) => server)).toEqual(['docker.io']);
  });

  test('can be neither read nor deleted by another account', async () => {
    const world = await makeWorld(await open(), { start: false });
    const other = await world.account('bob');
    const { registries } = world.running.control;
    const { registry } = await registries.create(world.caller, request, null);
    expect((await registries.list(other)).registries).toEqual([]);
    const unknown = await registries.delete(other, { id: 'nobody’s' }, null).catch(String);
    const others = await registries.delete(other, { id: registry.id }, null).catch(String);
    expect(others).toBe(String(unknown).replace('nobody’s', registry.id));
    await registries.delete(world.caller, { id: registry.id }, null);
    expect((await registries.list(world.caller)).registries).toEqual([]);
    await registries.create(world.caller, request, null);
  });

  test("are refused for a server on the engine's host unless the operator allows it", async () => {
    const world = await makeWorld(await open(), { start: false });
    const local = { ...request, server: 'LOCALHOST:5000' };
    await expect(world.running.control.registries.create(world.caller, local, null)).rejects.toMatchObject({
      code: 'field_value',
      message: expect.stringMatching(/field "server".*loopback or link-local address.*BERTH_LOCAL_REGISTRIES/),
    });
    expect((await world.running.control.registries.list(world.caller)).registries).toEqual([]);
    const lenient = world.startAnother({ localRegistries: true });
    await lenient.control.registries.create(world.caller, local, null);
    expect((await world.running.control.registries.list(world.caller)).registries).toMatchObject([
      { server: 'localhost:5000' },
    ]);
  });

  test.each(['https://registry.example.org', 'registry.example.org/me', 'berth.local', ''])(
    'are refused for the server %j with a valid example, and not stored',
    async (server) => {
      const world = await makeWorld(await open(), { start: false });
      const { registries } = world.running.control;
      const refused = registries.create(world.caller, { ...request, server }, null);
      await expect(refused).rejects.toMatchObject({
        code: 'field_value',
        message: expect.stringMatching(/field "server".*such as registry\.example\.org/),
      });
      expect((await registries.list(world.caller)).registries).toEqual([]);
    },
  );
});

const registriesOf = (store: Parameters<typeof makeRegistries>[0]['store'], key: Uint8Array) =>
  makeRegistries({
    store,
    time: Date,
    idempotent: makeIdempotent(key),
    randomUuid: () => randomBytes(16).toString('hex'),
    seal: makeSeal({ key, randomBytes }),
    localRegistries: false,
  });

describe('a seal', () => {
  const seal = makeSeal({ key: randomBytes(32), randomBytes });

  test('decrypts in the same context only, and never encrypts alike twice', () => {
    for (const secret of ['', 'x', SECRET, 'ü'.repeat(5_000)]) {
      const sealed = seal.seal(secret, 'a');
      expect(seal.open(sealed, 'a')).toBe(secret);
      expect(seal.open(sealed, 'b')).toBeNull();
      expect(seal.seal(secret, 'a')).not.toBe(sealed);
    }
  });

  test('rejects anything changed, truncated, or not encrypted by it', () => {
    const sealed = seal.seal(SECRET, 'a');
    const bytes = Buffer.from(sealed.slice(3), 'base64url');
    for (const at of [0, 11, 12, 27, 28, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
      expect(seal.open(`v1.${changed.toString('base64url')}`, 'a')).toBeNull();
    }
    for (const length of [0, 12, 27, bytes.length - 1])
      expect(seal.open(`v1.${bytes.subarray(0, length).toString('base64url')}`, 'a')).toBeNull();
    expect(seal.open(SECRET, 'a')).toBeNull();
  });
});
