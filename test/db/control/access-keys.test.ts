/** API keys and ssh keys: storage, limits and revocation. */
import { expect, test } from 'vitest';
import { authorizedKeysOf } from '../../../src/store/tables/keys.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  MINUTE,
  SECOND,
  adminOf,
  annaOf,
  eventKinds,
  everythingIn,
  expectRefused,
  keyed,
  openFixture,
  secondProcess,
  setDisabled,
  type AccessFixture,
} from './access-fixture.ts';

const minuteOf = ({ clock }: AccessFixture): number => clock.nowMs - (clock.nowMs % MINUTE);

const withKey = (fixture: AccessFixture, key: string) => fixture.access.authenticate({ kind: 'apiKey', key });

onBothEngines('API keys', (open) => {
  test('shows a key once, stores its hash, and authenticates its account', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    expect(key.fullKey).toMatch(/^berth_[A-Za-z0-9_-]{43}$/);
    expect(await withKey(fixture, key.fullKey)).toEqual({
      ...caller,
      sessionId: null,
      apiKeyId: key.id,
      expiresAtMs: undefined,
    });
    expect(await fixture.access.listApiKeys(caller)).toEqual({
      keys: [
        {
          id: key.id,
          name: 'ci',
          lastFour: key.fullKey.slice(-4),
          createdAt: fixture.clock.nowMs,
          prefix: key.fullKey.slice(0, 10),
          state: 'active',
          scopes: null,
          expiresAtUnixMs: null,
          addresses: null,
          lastUsedAtUnixMs: expect.toSatisfy((at) => at === null || at === minuteOf(fixture)),
        },
      ],
    });
    const stored = await everythingIn(fixture.store);
    expect(stored).not.toContain(key.fullKey);
    expect(stored).not.toContain(key.fullKey.slice('berth_'.length));
    expect(await fixture.access.listApiKeys(await adminOf(fixture))).toEqual({ keys: [] });
  });

  test('refuses anything but the exact key, a token as a key and a key as a token', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    await withKey(fixture, key.fullKey);
    const hash = (await fixture.store.read.selectFrom('apiKey').select('hash').executeTakeFirstOrThrow()).hash;
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
      await expectRefused(withKey(fixture, one), 'not_logged_in');
    }
    await expectRefused(fixture.access.authenticate({ kind: 'token', token: key.fullKey }), 'not_logged_in');
    // A key has no login: logging out with it is refused.
    await expectRefused(fixture.access.logout(await withKey(fixture, key.fullKey)), 'not_now', /delete it/);
    expect(await withKey(fixture, key.fullKey)).toMatchObject({ username: 'anna' });
  });

  test('revokes a deleted key at once here and within a second in another process', async () => {
    const fixture = await openFixture(open);
    const otherServer = await secondProcess(open, fixture);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    const { key: other } = await fixture.access.createApiKey(caller, { name: 'other' }, null);
    for (const one of [fixture, otherServer]) await withKey(one, key.fullKey);
    await fixture.access.deleteApiKey(caller, { id: key.id }, null);
    await expectRefused(withKey(fixture, key.fullKey), 'not_logged_in');
    fixture.clock.nowMs += SECOND;
    await expectRefused(withKey(otherServer, key.fullKey), 'not_logged_in');
    expect(await withKey(otherServer, other.fullKey)).toMatchObject({ username: 'anna' });
    await expectRefused(fixture.access.deleteApiKey(caller, { id: key.id }, null), 'not_found', new RegExp(key.id));
    const foreign = fixture.access.deleteApiKey(await adminOf(fixture), { id: other.id }, null);
    await expectRefused(foreign, 'not_found');
    expect(await eventKinds(fixture.store, caller.accountId)).toEqual([
      'account.created',
      'account.loggedIn',
      'apiKey.created',
      'apiKey.created',
      'apiKey.deleted',
    ]);
  });

  test('accepts an expiring key until its time, also from the cache and in another process', async () => {
    const fixture = await openFixture(open);
    const otherServer = await secondProcess(open, fixture);
    const { caller } = await annaOf(fixture);
    const expiresAtMs = fixture.clock.nowMs + 500;
    const scopes = ['account' as const];
    const wanted = { name: 'ci', scopes, expiresAtUnixMs: expiresAtMs, addresses: ['192.0.2.0/24'] };
    const { key } = await fixture.access.createApiKey(caller, wanted, null);
    const program = await withKey(fixture, key.fullKey);
    expect(program).toMatchObject({ scopes, limits: { expiresAtMs, addresses: ['192.0.2.0/24'] } });
    await withKey(otherServer, key.fullKey);
    fixture.clock.nowMs = expiresAtMs - 1;
    await withKey(fixture, key.fullKey);
    const state = async () => (await fixture.access.listApiKeys(caller)).keys[0];
    expect(await state()).toMatchObject({ state: 'active', scopes, expiresAtUnixMs: expiresAtMs });
    fixture.clock.nowMs = expiresAtMs;
    for (const one of [fixture, otherServer]) await expectRefused(withKey(one, key.fullKey), 'not_logged_in');
    expect(await state()).toMatchObject({ state: 'expired' });
    await expectRefused(fixture.access.grants.grant(program, 'notebook-x'), 'not_logged_in');
    await expectRefused(
      fixture.access.createApiKey(caller, wanted, null),
      'field_value',
      /has passed: it must be after/,
    );
  });

  test('creates no key beyond the key that asks', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci', scopes: ['account'] }, null);
    const program = await withKey(fixture, key.fullKey);
    await expectRefused(fixture.access.createApiKey(program, { name: 'all' }, null), 'forbidden', /send "scopes"/);
    await fixture.access.createApiKey(program, { name: 'same', scopes: ['account'] }, null);
    expect((await fixture.access.listApiKeys(caller)).keys).toHaveLength(2);
  });

  test('stores the last use to the minute, once a minute', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    const lastUse = async () => (await fixture.access.listApiKeys(caller)).keys[0]?.lastUsedAtUnixMs;
    expect(await lastUse()).toBeNull();
    for (let minute = 0; minute < 2; minute += 1) {
      await withKey(fixture, key.fullKey);
      await expect.poll(lastUse).toBe(minuteOf(fixture));
      fixture.clock.nowMs += MINUTE;
    }
    const written: unknown[] = [];
    const { write } = fixture.store;
    fixture.store.write = (fn) => (written.push(fn), write(fn));
    fixture.clock.nowMs -= MINUTE;
    for (let second = 0; second < 5; second += 1)
      await withKey(fixture, key.fullKey).then(() => (fixture.clock.nowMs += SECOND));
    expect(written).toEqual([]);
  });

  test('refuses the keys of a disabled account within a second', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    await withKey(fixture, key.fullKey);
    await setDisabled(fixture.store, 'anna', 1);
    fixture.clock.nowMs += SECOND;
    await expectRefused(withKey(fixture, key.fullKey), 'not_logged_in');
    await expectRefused(fixture.access.createApiKey(caller, { name: 'more' }, null), 'not_logged_in');
  });

  test('limits an account to fifty keys, also under concurrent requests', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, (_, i) => fixture.access.createApiKey(caller, { name: `n${i}` }, null)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(50);
    await expectRefused(
      fixture.access.createApiKey(caller, { name: 'n' }, null),
      'over_quota',
      /API keys\) is reached: the limit is 50.* uses 50.*delete one/,
    );
    expect((await fixture.access.listApiKeys(caller)).keys).toHaveLength(50);
  });

  test('creates no second key for a repeated Idempotency-Key, and does not reveal the first', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const once = keyed('k1', '/user/key/create');
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, once);
    const words = new RegExp(`"${key.id}".*only its answer had the full key.*delete it.*create another`);
    const refusal = await expectRefused(fixture.access.createApiKey(caller, { name: 'ci' }, once), 'not_now', words);
    expect(refusal.message).not.toContain(key.fullKey);
    const other = keyed('k1', '/user/key/create', 'another body');
    await expectRefused(fixture.access.createApiKey(caller, { name: 'x' }, other), 'idempotency_mismatch');
    expect((await fixture.access.listApiKeys(caller)).keys).toHaveLength(1);
    const stored = await everythingIn(fixture.store);
    expect(stored).not.toContain(key.fullKey.slice('berth_'.length));

    const deletion = keyed('k2', '/user/key/delete');
    await fixture.access.deleteApiKey(caller, { id: key.id }, deletion);
    await fixture.access.deleteApiKey(caller, { id: key.id }, deletion);
    expect((await fixture.access.listApiKeys(caller)).keys).toEqual([]);
  });

  test('creates one key for two concurrent requests with one Idempotency-Key', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const once = keyed('k', '/user/key/create');
    const outcomes = await Promise.allSettled(
      [1, 2, 3].map(() => fixture.access.createApiKey(caller, { name: 'ci' }, once)),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect((await fixture.access.listApiKeys(caller)).keys).toHaveLength(1);
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
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { accountId } = caller;
    expect(await authorizedKeysOf(fixture.store.read, accountId)).toBe('');
    const { sshKey } = await fixture.access.createSshKey(
      caller,
      { name: 'laptop', publicKey: `${queueEntries(1)} \u001b[2J\n` },
      null,
    );
    expect(sshKey.fingerprint).toMatch(/^SHA256:[A-Za-z0-9+/]{43}$/);
    fixture.clock.nowMs += 1;
    const second = await fixture.access.createSshKey(caller, { name: 'desk', publicKey: queueEntries(2, '') }, null);
    expect(await authorizedKeysOf(fixture.store.read, accountId)).toBe(
      `${queueEntries(1, 'anna@laptop [2J')}\n${queueEntries(2, '').trim()}\n`,
    );
    expect(await fixture.access.listSshKeys(caller)).toEqual({
      sshKeys: [
        { ...sshKey, createdAt: fixture.clock.nowMs - 1, kind: 'key' },
        { ...second.sshKey, createdAt: fixture.clock.nowMs, kind: 'key' },
      ],
    });
    await fixture.access.deleteSshKey(caller, { id: sshKey.id }, null);
    expect(await authorizedKeysOf(fixture.store.read, accountId)).toBe(`${queueEntries(2, '').trim()}\n`);
    expect(fixture.keysChanged).toEqual([accountId, accountId, accountId]);
    expect((await eventKinds(fixture.store, accountId)).slice(2)).toEqual([
      'sshKey.created',
      'sshKey.created',
      'sshKey.deleted',
    ]);
  });

  test('lists an authority in authorized_keys, for certificates of root and the account', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    await fixture.access.createSshKey(caller, { name: 'laptop', publicKey: queueEntries(1) }, null);
    fixture.clock.nowMs += 1;
    const wanted = { name: 'company', publicKey: queueEntries(2, 'ca'), kind: 'ca' as const };
    const { sshKey } = await fixture.access.createSshKey(caller, wanted, null);
    expect(await authorizedKeysOf(fixture.store.read, caller.accountId)).toBe(
      `${queueEntries(1)}\ncert-authority,principals="root,anna" ${queueEntries(2, 'ca')}\n`,
    );
    expect((await fixture.access.listSshKeys(caller)).sshKeys.map(({ kind }) => kind)).toEqual(['key', 'ca']);
    await fixture.access.deleteSshKey(caller, { id: sshKey.id }, null);
    expect(await authorizedKeysOf(fixture.store.read, caller.accountId)).toBe(`${queueEntries(1)}\n`);
    expect(fixture.keysChanged).toHaveLength(3);
  });

  test('rolls back the key when its effect on the instances fails', async () => {
    const fails = { onSshKeysChanged: () => Promise.reject(new Error('no instance could be marked')) };
    const fixture = await openFixture(open, fails);
    const { caller } = await annaOf(fixture);
    await expect(fixture.access.createSshKey(caller, { name: 'a', publicKey: queueEntries(1) }, null)).rejects.toThrow(
      /no instance/,
    );
    expect(await fixture.access.listSshKeys(caller)).toEqual({ sshKeys: [] });
    expect(await eventKinds(fixture.store, caller.accountId)).toEqual(['account.created', 'account.loggedIn']);
  });

  test('refuses a duplicate key by its name, and accepts it in another account', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    await fixture.access.createSshKey(caller, { name: 'laptop', publicKey: queueEntries(1) }, null);
    const twin = fixture.access.createSshKey(
      caller,
      { name: 'other', publicKey: queueEntries(1, 'another comment') },
      null,
    );
    await expectRefused(twin, 'name_taken', /already has this ssh key, as "laptop" \(SHA256:/);
    await fixture.access.createSshKey(await adminOf(fixture), { name: 'laptop', publicKey: queueEntries(1) }, null);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () =>
        fixture.access.createSshKey(caller, { name: 'n', publicKey: queueEntries(5) }, null),
      ),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('refuses an invalid public key before anything is written', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const publicKey = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----\n';
    await expectRefused(
      fixture.access.createSshKey(caller, { name: 'a', publicKey }, null),
      'field_value',
      /PRIVATE key/,
    );
    expect(fixture.keysChanged).toEqual([]);
  });

  test('limits an account to a hundred keys; only the owner deletes; a repeat answers the same', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const add = (n: number) => fixture.access.createSshKey(caller, { name: `n${n}`, publicKey: queueEntries(n) }, null);
    const outcomes = await Promise.allSettled(Array.from({ length: 105 }, (_, n) => add(n)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(100);
    await expectRefused(add(999), 'over_quota', /ssh keys\) is reached: the limit is 100/);
    const [first] = (await fixture.access.listSshKeys(caller)).sshKeys;
    const id = first?.id ?? '';
    await expectRefused(fixture.access.deleteSshKey(await adminOf(fixture), { id }, null), 'not_found');
    const deletion = keyed('d', '/user/sshkey/delete');
    for (let i = 0; i < 2; i++) await fixture.access.deleteSshKey(caller, { id }, deletion);
    const creation = keyed('c', '/user/sshkey/create');
    const body = { name: 'back', publicKey: queueEntries(999) };
    const made = await fixture.access.createSshKey(caller, body, creation);
    expect(await fixture.access.createSshKey(caller, body, creation)).toEqual(made);
  });
});
