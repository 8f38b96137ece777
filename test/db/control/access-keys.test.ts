/** API keys and ssh keys: storage, limits and revocation. */
import { expect, test } from 'vitest';
import { authorizedKeysOf } from '../../../src/store/tables/keys.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  SECOND,
  adminOf,
  annaOf,
  eventKinds,
  everythingIn,
  expectRefused,
  keyed,
  openRoom,
  secondProcess,
  setDisabled,
  type Room,
} from './access-fixture.ts';

const withKey = (room: Room, key: string) => room.access.authenticate({ kind: 'apiKey', key });

onBothEngines('API keys', (open) => {
  test('shows a key once, stores its hash, and authenticates its account', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    expect(key.fullKey).toMatch(/^berth_[A-Za-z0-9_-]{43}$/);
    expect(await withKey(room, key.fullKey)).toEqual({
      ...caller,
      sessionId: null,
      apiKeyId: key.id,
      expiresAtMs: undefined,
    });
    expect(await room.access.listApiKeys(caller)).toEqual({
      keys: [{ id: key.id, name: 'ci', lastFour: key.fullKey.slice(-4), createdAt: room.clock.nowMs }],
    });
    const kept = await everythingIn(room.store);
    expect(kept).not.toContain(key.fullKey);
    expect(kept).not.toContain(key.fullKey.slice('berth_'.length));
    expect(await room.access.listApiKeys(await adminOf(room))).toEqual({ keys: [] });
  });

  test('refuses anything but the exact key, a token as a key and a key as a token', async () => {
    const room = await openRoom(open);
    const { token, caller } = await annaOf(room);
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    await withKey(room, key.fullKey);
    const hash = (await room.store.read.selectFrom('apiKey').select('hash').executeTakeFirstOrThrow()).hash;
    const bad = [
      '',
      'berth_',
      key.fullKey.slice(0, -1),
      `${key.fullKey}A`,
      key.fullKey.toUpperCase(),
      ` ${key.fullKey}`,
      hash,
      token,
    ];
    for (const one of [...bad, key.fullKey.slice(6), 'berth_' + 'A'.repeat(43), 'x'.repeat(65_536)]) {
      await expectRefused(withKey(room, one), 'not_logged_in');
    }
    await expectRefused(room.access.authenticate({ kind: 'token', token: key.fullKey }), 'not_logged_in');
    // A key has no login: logging out with it is refused.
    await expectRefused(room.access.logout(await withKey(room, key.fullKey)), 'not_now', /delete it/);
    expect(await withKey(room, key.fullKey)).toMatchObject({ username: 'anna' });
  });

  test('revokes a deleted key at once here and within a second in another process', async () => {
    const room = await openRoom(open);
    const otherServer = await secondProcess(open, room);
    const { caller } = await annaOf(room);
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    const { key: other } = await room.access.createApiKey(caller, { name: 'other' }, null);
    for (const one of [room, otherServer]) await withKey(one, key.fullKey);
    await room.access.deleteApiKey(caller, { id: key.id }, null);
    await expectRefused(withKey(room, key.fullKey), 'not_logged_in');
    room.clock.nowMs += SECOND;
    await expectRefused(withKey(otherServer, key.fullKey), 'not_logged_in');
    expect(await withKey(otherServer, other.fullKey)).toMatchObject({ username: 'anna' });
    await expectRefused(room.access.deleteApiKey(caller, { id: key.id }, null), 'not_found', new RegExp(key.id));
    const foreign = room.access.deleteApiKey(await adminOf(room), { id: other.id }, null);
    await expectRefused(foreign, 'not_found');
    expect(await eventKinds(room.store, caller.accountId)).toEqual([
      'account.created',
      'account.loggedIn',
      'apiKey.created',
      'apiKey.created',
      'apiKey.deleted',
    ]);
  });

  test('refuses the keys of a disabled account within a second', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    await withKey(room, key.fullKey);
    await setDisabled(room.store, 'anna', 1);
    room.clock.nowMs += SECOND;
    await expectRefused(withKey(room, key.fullKey), 'not_logged_in');
    await expectRefused(room.access.createApiKey(caller, { name: 'more' }, null), 'not_logged_in');
  });

  test('limits an account to fifty keys, also under concurrent requests', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) => room.access.createApiKey(caller, { name: `n${i}` }, null)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(50);
    await expectRefused(
      room.access.createApiKey(caller, { name: 'n' }, null),
      'over_quota',
      /has 50 API keys.*delete one/,
    );
    expect((await room.access.listApiKeys(caller)).keys).toHaveLength(50);
  });

  test('creates no second key for a repeated Idempotency-Key, and does not reveal the first', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const once = keyed('k1', '/user/key/create');
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, once);
    const words = new RegExp(`"${key.id}".*shown that once.*delete it.*mint another`);
    const refusal = await expectRefused(room.access.createApiKey(caller, { name: 'ci' }, once), 'not_now', words);
    expect(refusal.message).not.toContain(key.fullKey);
    const other = keyed('k1', '/user/key/create', 'another body');
    await expectRefused(room.access.createApiKey(caller, { name: 'x' }, other), 'idempotency_mismatch');
    expect((await room.access.listApiKeys(caller)).keys).toHaveLength(1);
    const kept = await everythingIn(room.store);
    expect(kept).not.toContain(key.fullKey.slice('berth_'.length));

    const deletion = keyed('k2', '/user/key/delete');
    await room.access.deleteApiKey(caller, { id: key.id }, deletion);
    await room.access.deleteApiKey(caller, { id: key.id }, deletion);
    expect((await room.access.listApiKeys(caller)).keys).toEqual([]);
  });

  test('creates one key for two concurrent requests with one Idempotency-Key', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const once = keyed('k', '/user/key/create');
    const outcomes = await Promise.allSettled(
      [1, 2, 3].map(() => room.access.createApiKey(caller, { name: 'ci' }, once)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect((await room.access.listApiKeys(caller)).keys).toHaveLength(1);
  });
});

/** A well-formed ed25519 line. Only sshd would check the point of the curve. */
const queueEntries = (n: number, comment = 'anna@laptop'): string => {
  const blob = Buffer.concat([
    Buffer.from('0000000b7373682d6564323535313900000020', 'hex'),
    Buffer.alloc(28),
    Buffer.alloc(4),
  ]);
  blob.writeUInt32BE(n, blob.length - 4);
  return `ssh-ed25519 ${blob.toString('base64')} ${comment}`;
};

onBothEngines('ssh keys', (open) => {
  test("stores a key as one clean line; every change makes the account's instances due", async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const { accountId } = caller;
    expect(await authorizedKeysOf(room.store.read, accountId)).toBe('');
    const { sshKey } = await room.access.createSshKey(
      caller,
      { name: 'laptop', publicKey: `${queueEntries(1)} \u001b[2J\n` },
      null,
    );
    expect(sshKey.fingerprint).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
    room.clock.nowMs += 1;
    const second = await room.access.createSshKey(caller, { name: 'desk', publicKey: queueEntries(2, '') }, null);
    expect(await authorizedKeysOf(room.store.read, accountId)).toBe(
      `${queueEntries(1, 'anna@laptop [2J')}\n${queueEntries(2, '').trim()}\n`,
    );
    expect(await room.access.listSshKeys(caller)).toEqual({
      sshKeys: [
        { ...sshKey, createdAt: room.clock.nowMs - 1 },
        { ...second.sshKey, createdAt: room.clock.nowMs },
      ],
    });
    await room.access.deleteSshKey(caller, { id: sshKey.id }, null);
    expect(await authorizedKeysOf(room.store.read, accountId)).toBe(`${queueEntries(2, '').trim()}\n`);
    expect(room.keysChanged).toEqual([accountId, accountId, accountId]);
    expect((await eventKinds(room.store, accountId)).slice(2)).toEqual([
      'sshKey.created',
      'sshKey.created',
      'sshKey.deleted',
    ]);
  });

  test('rolls back the key when its effect on the instances fails', async () => {
    const fails = { onSshKeysChanged: () => Promise.reject(new Error('no instance could be marked')) };
    const room = await openRoom(open, fails);
    const { caller } = await annaOf(room);
    await expect(room.access.createSshKey(caller, { name: 'a', publicKey: queueEntries(1) }, null)).rejects.toThrow(
      /no instance/,
    );
    expect(await room.access.listSshKeys(caller)).toEqual({ sshKeys: [] });
    expect(await eventKinds(room.store, caller.accountId)).toEqual(['account.created', 'account.loggedIn']);
  });

  test('refuses a duplicate key by its name, and accepts it in another account', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    await room.access.createSshKey(caller, { name: 'laptop', publicKey: queueEntries(1) }, null);
    const twin = room.access.createSshKey(
      caller,
      { name: 'other', publicKey: queueEntries(1, 'another comment') },
      null,
    );
    await expectRefused(twin, 'name_taken', /already, as "laptop" \(SHA256:/);
    await room.access.createSshKey(await adminOf(room), { name: 'laptop', publicKey: queueEntries(1) }, null);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () =>
        room.access.createSshKey(caller, { name: 'n', publicKey: queueEntries(5) }, null),
      ),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('refuses an invalid public key before anything is written', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const publicKey = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----\n';
    await expectRefused(room.access.createSshKey(caller, { name: 'a', publicKey }, null), 'field_value', /PRIVATE key/);
    expect(room.keysChanged).toEqual([]);
  });

  test('limits an account to a hundred keys; only the owner deletes; a repeat answers the same', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const add = (n: number) => room.access.createSshKey(caller, { name: `n${n}`, publicKey: queueEntries(n) }, null);
    const outcomes = await Promise.allSettled(Array.from({ length: 105 }, (_, n) => add(n)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(100);
    await expectRefused(add(999), 'over_quota', /has 100 ssh keys/);
    const [first] = (await room.access.listSshKeys(caller)).sshKeys;
    const id = first?.id ?? '';
    await expectRefused(room.access.deleteSshKey(await adminOf(room), { id }, null), 'not_found');
    const deletion = keyed('d', '/user/sshkey/delete');
    for (let i = 0; i < 2; i++) await room.access.deleteSshKey(caller, { id }, deletion);
    const creation = keyed('c', '/user/sshkey/create');
    const body = { name: 'back', publicKey: queueEntries(999) };
    const made = await room.access.createSshKey(caller, body, creation);
    expect(await room.access.createSshKey(caller, body, creation)).toEqual(made);
  });
});
