/** Login, rate limit, change of password, and accounts. */
import { randomBytes } from 'node:crypto';
import { decodeJwt } from 'jose';
import { describe, expect, test } from 'vitest';
import { makeLoginRateLimit, addressBucket } from '../../../src/control/access/login-rate-limit.ts';
import { argon2id, makePasswords, type Argon2id } from '../../../src/control/access/passwords.ts';
import { Refusal } from '../../../src/domain/refusal.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  ADMIN_PASSWORD,
  HOME,
  MINUTE,
  SECOND,
  adminOf,
  annaOf,
  callerOf,
  eventKinds,
  everythingIn,
  expectRefused,
  keyed,
  openRoom,
  secondProcess,
  refusalOf,
  setDisabled,
  tokenOf,
  type Room,
} from './access-fixture.ts';

const WRONG = /username \(or email\) or the password is wrong/;
const wrongLogin = (room: Room, username: string, from = HOME) =>
  room.access.login({ username, password: 'not the password' }, from);

onBothEngines('login', (open) => {
  test('logs in by name or email in any letter case', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    for (const username of ['anna', 'Anna', 'anna@example.org', 'ANNA@EXAMPLE.ORG']) {
      const { accessToken } = await room.access.login({ username, password: "anna's password" }, HOME);
      expect(decodeJwt(accessToken).sub).toBe(caller.accountId);
    }
  });

  test('treats composed and decomposed characters of a password alike', async () => {
    const room = await openRoom(open);
    const body = { username: 'zoe', email: '', password: 'Zo\u00eb was here', balance: 0 };
    await room.access.createUser(await adminOf(room), body, null);
    expect(await tokenOf(room, 'zoe', 'Zoe\u0308 was here')).toMatch(/\./);
  });

  test('hashes and answers alike for an unknown name and a wrong password', async () => {
    const room = await openRoom(open);
    await annaOf(room);
    await setDisabled(room.store, 'anna', 1);
    const seen: { words: string; code: string; work: unknown[] }[] = [];
    for (const username of ['admin', 'nobody', 'nobody@example.org', 'anna', 'anna@example.org', '', "' or 1=1 --"]) {
      const before = room.hashes.length;
      const { message, code } = await refusalOf(wrongLogin(room, username));
      const work = room.hashes
        .slice(before)
        .map(({ memory, passes, parallelism, tagLength, nonce, message: typed }) => [
          memory,
          passes,
          parallelism,
          tagLength,
          Buffer.byteLength(nonce),
          Buffer.byteLength(typed),
        ]);
      seen.push({ words: message, code, work });
    }
    expect(seen[0]).toEqual({
      words: expect.stringMatching(WRONG),
      code: 'not_logged_in',
      work: [[19_456, 2, 1, 32, 16, 16]],
    });
    for (const one of seen) expect(one).toEqual(seen[0]);
  });

  test('reveals a disabled account only with the right password', async () => {
    const room = await openRoom(open);
    await annaOf(room);
    await setDisabled(room.store, 'anna', 1);
    await expectRefused(wrongLogin(room, 'anna'), 'not_logged_in', WRONG);
    const right = room.access.login({ username: 'anna', password: "anna's password" }, HOME);
    await expectRefused(right, 'forbidden', /disabled.*administrator/);
  });

  test('blocks a name after ten wrong passwords; a success in between costs nothing', async () => {
    const room = await openRoom(open);
    const { accountId } = (await annaOf(room)).caller;
    const stranger = '198.51.100.1';
    for (let i = 0; i < 9; i++) await expectRefused(wrongLogin(room, 'anna', stranger), 'not_logged_in');
    await tokenOf(room, 'anna', "anna's password");
    await expectRefused(wrongLogin(room, 'anna@example.org', stranger), 'not_logged_in');

    const before = room.hashes.length;
    const refusal = await expectRefused(
      wrongLogin(room, 'anna', '203.0.113.9'),
      'too_many_requests',
      /Wait 60 seconds/,
    );
    expect(refusal.retryAfterS).toBe(60);
    await expectRefused(
      room.access.login({ username: 'anna', password: "anna's password" }, stranger),
      'too_many_requests',
    );
    expect(room.hashes.length).toBe(before);
    // The owner, who logged in from home before, is not locked out.
    expect(await tokenOf(room, 'anna', "anna's password")).toMatch(/\./);
    expect(await tokenOf(room)).toMatch(/\./);

    room.clock.nowMs += MINUTE;
    await expectRefused(wrongLogin(room, 'anna', stranger), 'not_logged_in');
    await expectRefused(wrongLogin(room, 'anna', stranger), 'too_many_requests');
    room.clock.nowMs += 10 * MINUTE;
    const { accessToken } = await room.access.login({ username: 'anna', password: "anna's password" }, stranger);
    expect(decodeJwt(accessToken).sub).toBe(accountId);
  });

  test('refuses concurrent guesses beyond the limit without checking them', async () => {
    const room = await openRoom(open);
    await annaOf(room);
    const before = room.hashes.length;
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, () => refusalOf(wrongLogin(room, 'anna', '198.51.100.2'))),
    );
    const looked = outcomes.filter(({ code }) => code === 'not_logged_in').length;
    expect(looked).toBeGreaterThanOrEqual(10);
    // Two hashes run at once, so one more may run when the tenth fails.
    expect(looked).toBeLessThanOrEqual(11);
    expect(room.hashes.length - before).toBe(looked);
  });

  test('blocks an address that guesses many names, and no other address', async () => {
    const room = await openRoom(open);
    const outcomes = [];
    for (let i = 0; i < 70; i++)
      outcomes.push((await refusalOf(wrongLogin(room, `name-${i}`, `2001:db8:1:2::${i}`))).code);
    expect(outcomes.indexOf('too_many_requests')).toBe(60);
    const refusal = await refusalOf(wrongLogin(room, 'other', '2001:db8:1:2:ffff::1'));
    expect(refusal.retryAfterS).toBe(10);
    await expectRefused(wrongLogin(room, 'other', '2001:db8:1:3::1'), 'not_logged_in');
    room.clock.nowMs += 10 * SECOND;
    await expectRefused(wrongLogin(room, 'other', '2001:db8:1:2::1'), 'not_logged_in');
  });

  test("never locks out an earlier login's address through failures of others behind it", async () => {
    const room = await openRoom(open);
    await annaOf(room);
    await room.access.login({ username: 'anna', password: "anna's password" }, '192.0.2.1');
    for (let i = 0; i < 70; i++) await refusalOf(wrongLogin(room, `name-${i}`, '192.0.2.1'));
    await expectRefused(wrongLogin(room, 'other', '192.0.2.1'), 'too_many_requests');
    await room.access.login({ username: 'anna', password: "anna's password" }, '192.0.2.1');
  });

  test('admits two hundred concurrent logins from one address', async () => {
    const room = await openRoom(open);
    const tokens = await Promise.all(Array.from({ length: 200 }, () => tokenOf(room)));
    expect(new Set(tokens).size).toBe(200);
  });

  test('stores and logs no password and no token', async () => {
    const room = await openRoom(open);
    const { token } = await annaOf(room);
    await refusalOf(wrongLogin(room, 'anna'));
    await refusalOf(wrongLogin(room, 'my secret typed as a name'));
    const kept = `${await everythingIn(room.store)} ${JSON.stringify(room.logged)}`;
    for (const secret of [ADMIN_PASSWORD, "anna's password", 'not the password', 'my secret typed', token]) {
      expect(kept).not.toContain(secret);
    }
    expect(room.logged).toHaveLength(2);
  });
});

onBothEngines('change of password', (open) => {
  const change = (oldPassword: string, newPassword: string) => ({ oldPassword, newPassword });

  test('ends every login at once here and within a second in another process; keeps API keys', async () => {
    const room = await openRoom(open);
    const otherServer = await secondProcess(open, room);
    const { token, caller } = await annaOf(room);
    const second = await tokenOf(room, 'anna', "anna's password");
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    for (const one of [token, second]) {
      await callerOf(room, one);
      await callerOf(otherServer, one);
    }
    await room.access.changePassword(caller, change("anna's password", 'a better password'));
    for (const one of [token, second]) await expectRefused(callerOf(room, one), 'not_logged_in');
    room.clock.nowMs += SECOND;
    for (const one of [token, second]) await expectRefused(callerOf(otherServer, one), 'not_logged_in');
    const program = await room.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    expect(program.username).toBe('anna');
    await expectRefused(room.access.login({ username: 'anna', password: "anna's password" }, HOME), 'not_logged_in');
    expect(await tokenOf(room, 'anna', 'a better password')).toMatch(/\./);
    expect(await tokenOf(room)).toMatch(/\./);
    expect(await eventKinds(room.store, caller.accountId)).toContain('account.passwordChanged');
  });

  test('requires the old password; limits wrong ones apart from logins', async () => {
    const room = await openRoom(open);
    const { token, caller } = await annaOf(room);
    for (let i = 0; i < 10; i++) {
      await expectRefused(
        room.access.changePassword(caller, change('a guess', 'x'.repeat(8))),
        'forbidden',
        /old password is wrong/,
      );
    }
    const refusal = await expectRefused(
      room.access.changePassword(caller, change("anna's password", 'x'.repeat(8))),
      'too_many_requests',
    );
    expect(refusal.retryAfterS).toBe(60);
    expect(await callerOf(room, token)).toMatchObject({ username: 'anna' });
    expect(await tokenOf(room, 'anna', "anna's password")).toMatch(/\./);
  });

  test('accepts one of two concurrent changes; a concurrent login with the old password does not survive', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const tries = await Promise.allSettled([
      room.access.changePassword(caller, change("anna's password", 'first new one')),
      room.access.changePassword(caller, change("anna's password", 'second new one')),
      ...Array.from({ length: 20 }, () => tokenOf(room, 'anna', "anna's password")),
    ]);
    expect(
      tries
        .slice(0, 2)
        .map(({ status }) => status)
        .sort(),
    ).toEqual(['fulfilled', 'rejected']);
    for (const attempt of tries.slice(2)) {
      if (attempt.status === 'fulfilled') await expectRefused(callerOf(room, String(attempt.value)), 'not_logged_in');
      else expect(attempt.reason).toBeInstanceOf(Refusal);
    }
    const live = await room.store.read
      .selectFrom('session')
      .select('id')
      .where('accountId', '=', caller.accountId)
      .where('revokedAtMs', 'is', null)
      .execute();
    expect(live).toEqual([]);
  });
});

onBothEngines('accounts', (open) => {
  test('creates the first account once, and keeps its password when another is configured', async () => {
    const room = await openRoom(open);
    expect(await room.access.ensureAdmin({ password: 'another one', balance: 5 })).toBe(false);
    const admin = await adminOf(room);
    expect(admin).toMatchObject({ username: 'admin', roles: ['admin'], email: '' });
    expect(await room.access.balance(admin)).toEqual({
      balance: 1000,
      availableBalance: 1000,
      availableVoucherAmount: 0,
      availableCreditAmount: 0,
    });
  });

  test('creates one first account when two processes start together', async () => {
    const room = await openRoom(open);
    await room.store.write((tx) => tx.deleteFrom('account').execute());
    const otherServer = await secondProcess(open, room);
    const made = await Promise.all(
      [room, otherServer].map((one) => one.access.ensureAdmin({ password: ADMIN_PASSWORD, balance: 1 })),
    );
    expect(made.sort()).toEqual([false, true]);
    expect(await tokenOf(otherServer)).toMatch(/\./);
  });

  const body = { username: 'bert', email: 'Bert@Example.org', password: "bert's password", balance: 0.1 };

  test('lets only an administrator create accounts; names and emails are unique in any letter case', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    await expectRefused(room.access.createUser(caller, body, null), 'forbidden', /administrator/);
    const admin = await adminOf(room);
    const made = await room.access.createUser(admin, body, null);
    expect(made).toEqual({ userId: expect.any(String), username: 'bert', email: 'bert@example.org', group: ['user'] });
    await expectRefused(
      room.access.createUser(admin, { ...body, email: '' }, null),
      'name_taken',
      /username "bert" is taken/,
    );
    const sameMail = { ...body, username: 'carl', email: 'BERT@example.ORG' };
    await expectRefused(
      room.access.createUser(admin, sameMail, null),
      'name_taken',
      /email "bert@example.org" belongs/,
    );
    for (const username of ['d', 'e']) await room.access.createUser(admin, { ...body, username, email: '' }, null);
    const bert = await callerOf(room, await tokenOf(room, 'bert', body.password));
    expect((await room.access.balance(bert)).balance).toBe(0.1);
    expect(await eventKinds(room.store, made.userId)).toEqual(['account.created', 'account.loggedIn']);
  });

  test('creates one account for ten concurrent requests of one name', async () => {
    const room = await openRoom(open);
    const admin = await adminOf(room);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) =>
        room.access.createUser(admin, { ...body, email: i % 2 ? body.email : '' }, null),
      ),
    );
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(refused).toHaveLength(9);
    for (const reason of refused) expect(reason).toMatchObject({ code: 'name_taken' });
  });

  test('repeats the answer for an equal key and body; another password counts as another body', async () => {
    const room = await openRoom(open);
    const admin = await adminOf(room);
    const first = await room.access.createUser(admin, body, keyed('k', '/user/create', 'hash of the body'));
    const again = await room.access.createUser(admin, body, keyed('k', '/user/create', 'hash of the body'));
    expect(again).toEqual(first);
    const other = room.access.createUser(admin, body, keyed('k', '/user/create', 'hash of another'));
    await expectRefused(other, 'idempotency_mismatch');
    // The body holds the password: a fast hash of it would be an oracle.
    expect(await everythingIn(room.store)).not.toContain('hash of the body');
  });
});

describe('password hashes', () => {
  const passwordsWith = (work: Argon2id, atOnce = 2) => makePasswords({ randomBytes, argon2id: work, atOnce });
  const yes = { mayStart: () => undefined, failed: () => undefined };

  test('uses argon2id PHC strings of 19 MiB, two passes, one lane, each with its own salt', async () => {
    const passwords = passwordsWith(argon2id);
    const [first, second] = await Promise.all([passwords.hash('secret word'), passwords.hash('secret word')]);
    expect(first).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(second).not.toBe(first);
    expect(await passwords.verify('secret word', first, yes)).toBe(true);
    expect(await passwords.verify('secret wore', first, yes)).toBe(false);
    expect(await passwords.verify('secret word', null, yes)).toBe(false);
    await expect(passwords.verify('x', '$2b$10$abc', yes)).rejects.toThrow(/not an argon2id PHC string/);
  });

  test('bounds concurrent hashes, starts them in order, and continues after a failure', async () => {
    let running = 0;
    let most = 0;
    let started = 0;
    const pending: (() => void)[] = [];
    const passwords = passwordsWith(async ({ tagLength }) => {
      running += 1;
      most = Math.max(most, running);
      started += 1;
      if (started === 3) {
        running -= 1;
        throw new Error('this one fails');
      }
      await new Promise<void>((resolve) => pending.push(resolve));
      running -= 1;
      return new Uint8Array(tagLength);
    }, 3);
    const order: number[] = [];
    const all = Promise.allSettled(
      Array.from({ length: 50 }, (_, i) => passwords.verify('x', null, { ...yes, mayStart: () => void order.push(i) })),
    );
    const done = { value: false };
    void all.then(() => (done.value = true));
    while (!done.value) {
      pending.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(most).toBe(3);
    expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect((await all).filter(({ status }) => status === 'rejected')).toHaveLength(1);
  });

  test('refuses a full queue with a retry time', async () => {
    const release: (() => void)[] = [];
    const passwords = passwordsWith(
      ({ tagLength }) => new Promise((resolve) => release.push(() => resolve(new Uint8Array(tagLength)))),
      1,
    );
    const waiting = Array.from({ length: 4097 }, () => passwords.verify('x', null, yes));
    const refusal = await expectRefused(passwords.verify('x', null, yes), 'too_many_requests');
    expect(refusal.retryAfterS).toBe(5);
    const all = Promise.all(waiting);
    const done = { value: false };
    void all.then(() => (done.value = true));
    while (!done.value) {
      release.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(
      await passwords.verify('x', null, { ...yes, mayStart: () => void setImmediate(() => release.shift()?.()) }),
    ).toBe(false);
  });
});

describe('the login rate limit', () => {
  test('maps all addresses of one client to one bucket', () => {
    const places = [
      ['192.0.2.1', '192.0.2.1'],
      ['::ffff:192.0.2.1', '192.0.2.1'],
      ['::FFFF:192.0.2.1', '192.0.2.1'],
      ['::1', '0:0:0:0'],
      ['2001:db8::1', '2001:db8:0:0'],
      ['2001:0db8:0000:0000:ffff::1', '2001:db8:0:0'],
      ['2001:DB8:0:0:1:2:3:4', '2001:db8:0:0'],
      ['2001:db8:1:2::', '2001:db8:1:2'],
      ['fe80::1%eth0', 'fe80:0:0:0'],
      ['unix', 'unix'],
    ] as const;
    for (const [address, place] of places) expect(addressBucket(address), address).toBe(place);
  });

  test('bounds its entries in a flood of names and addresses', () => {
    const attempts = makeLoginRateLimit({ now: () => 0 });
    for (let i = 0; i < 100_000; i++) {
      attempts.failed(`name-${i}`, `2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`);
      attempts.succeeded(`name-${i}`, `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
    }
    expect(attempts.size).toBe(60_000);
    expect(() => attempts.check('name-99999', null)).not.toThrow();
  });
});
