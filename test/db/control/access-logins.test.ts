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
  openFixture,
  secondProcess,
  refusalOf,
  setDisabled,
  tokenOf,
  type AccessFixture,
} from './access-fixture.ts';

const WRONG = /username \(or email\) or the password is wrong/;
const wrongLogin = (fixture: AccessFixture, username: string, from = HOME) =>
  fixture.access.login({ username, password: 'not the password' }, from);

onBothEngines('login', (open) => {
  test('logs in by name or email in any letter case', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    for (const username of ['anna', 'Anna', 'anna@example.org', 'ANNA@EXAMPLE.ORG']) {
      const { accessToken } = await fixture.access.login({ username, password: "anna's password" }, HOME);
      expect(decodeJwt(accessToken).sub).toBe(caller.accountId);
    }
  });

  test('treats composed and decomposed characters of a password alike', async () => {
    const fixture = await openFixture(open);
    const body = { username: 'zoe', email: '', password: 'Zo\u00eb was here', balance: 0 };
    await fixture.access.createUser(await adminOf(fixture), body, null);
    expect(await tokenOf(fixture, 'zoe', 'Zoe\u0308 was here')).toMatch(/\./);
  });

  test('hashes and answers alike for an unknown name and a wrong password', async () => {
    const fixture = await openFixture(open);
    await annaOf(fixture);
    await setDisabled(fixture.store, 'anna', 1);
    const seen: { words: string; code: string; work: unknown[] }[] = [];
    for (const username of ['admin', 'nobody', 'nobody@example.org', 'anna', 'anna@example.org', '', "' or 1=1 --"]) {
      const before = fixture.hashes.length;
      const { message, code } = await refusalOf(wrongLogin(fixture, username));
      const work = fixture.hashes
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
    const fixture = await openFixture(open);
    await annaOf(fixture);
    await setDisabled(fixture.store, 'anna', 1);
    await expectRefused(wrongLogin(fixture, 'anna'), 'not_logged_in', WRONG);
    const right = fixture.access.login({ username: 'anna', password: "anna's password" }, HOME);
    await expectRefused(right, 'forbidden', /disabled.*administrator/);
  });

  test('blocks a name after ten wrong passwords; a success in between costs nothing', async () => {
    const fixture = await openFixture(open);
    const { accountId } = (await annaOf(fixture)).caller;
    const attackerAddress = '198.51.100.1';
    for (let i = 0; i < 9; i++) await expectRefused(wrongLogin(fixture, 'anna', attackerAddress), 'not_logged_in');
    await tokenOf(fixture, 'anna', "anna's password");
    await expectRefused(wrongLogin(fixture, 'anna@example.org', attackerAddress), 'not_logged_in');

    const before = fixture.hashes.length;
    const refusal = await expectRefused(
      wrongLogin(fixture, 'anna', '203.0.113.9'),
      'too_many_requests',
      /Wait 60 seconds/,
    );
    expect(refusal.retryAfterS).toBe(60);
    await expectRefused(
      fixture.access.login({ username: 'anna', password: "anna's password" }, attackerAddress),
      'too_many_requests',
    );
    expect(fixture.hashes.length).toBe(before);
    // The owner, who logged in from home before, is not locked out.
    expect(await tokenOf(fixture, 'anna', "anna's password")).toMatch(/\./);
    expect(await tokenOf(fixture)).toMatch(/\./);

    fixture.clock.nowMs += MINUTE;
    await expectRefused(wrongLogin(fixture, 'anna', attackerAddress), 'not_logged_in');
    await expectRefused(wrongLogin(fixture, 'anna', attackerAddress), 'too_many_requests');
    fixture.clock.nowMs += 10 * MINUTE;
    const { accessToken } = await fixture.access.login(
      { username: 'anna', password: "anna's password" },
      attackerAddress,
    );
    expect(decodeJwt(accessToken).sub).toBe(accountId);
  });

  test('refuses concurrent guesses beyond the limit without checking them', async () => {
    const fixture = await openFixture(open);
    await annaOf(fixture);
    const before = fixture.hashes.length;
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, () => refusalOf(wrongLogin(fixture, 'anna', '198.51.100.2'))),
    );
    const looked = outcomes.filter(({ code }) => code === 'not_logged_in').length;
    expect(looked).toBeGreaterThanOrEqual(10);
    // Two hashes run at once, so one more may run when the tenth fails.
    expect(looked).toBeLessThanOrEqual(11);
    expect(fixture.hashes.length - before).toBe(looked);
  });

  test('blocks an address that guesses many names, and no other address', async () => {
    const fixture = await openFixture(open);
    const outcomes = [];
    for (let i = 0; i < 70; i++)
      outcomes.push((await refusalOf(wrongLogin(fixture, `name-${i}`, `2001:db8:1:2::${i}`))).code);
    expect(outcomes.indexOf('too_many_requests')).toBe(60);
    const refusal = await refusalOf(wrongLogin(fixture, 'other', '2001:db8:1:2:ffff::1'));
    expect(refusal.retryAfterS).toBe(10);
    await expectRefused(wrongLogin(fixture, 'other', '2001:db8:1:3::1'), 'not_logged_in');
    fixture.clock.nowMs += 10 * SECOND;
    await expectRefused(wrongLogin(fixture, 'other', '2001:db8:1:2::1'), 'not_logged_in');
  });

  test("never locks out an earlier login's address through failures of others behind it", async () => {
    const fixture = await openFixture(open);
    await annaOf(fixture);
    await fixture.access.login({ username: 'anna', password: "anna's password" }, '192.0.2.1');
    for (let i = 0; i < 70; i++) await refusalOf(wrongLogin(fixture, `name-${i}`, '192.0.2.1'));
    await expectRefused(wrongLogin(fixture, 'other', '192.0.2.1'), 'too_many_requests');
    await fixture.access.login({ username: 'anna', password: "anna's password" }, '192.0.2.1');
  });

  test('admits two hundred concurrent logins from one address', async () => {
    const fixture = await openFixture(open);
    const tokens = await Promise.all(Array.from({ length: 200 }, () => tokenOf(fixture)));
    expect(new Set(tokens).size).toBe(200);
  });

  test('stores and logs no password and no token', async () => {
    const fixture = await openFixture(open);
    const { token } = await annaOf(fixture);
    await refusalOf(wrongLogin(fixture, 'anna'));
    await refusalOf(wrongLogin(fixture, 'my secret typed as a name'));
    const stored = `${await everythingIn(fixture.store)} ${JSON.stringify(fixture.logged)}`;
    for (const secret of [ADMIN_PASSWORD, "anna's password", 'not the password', 'my secret typed', token]) {
      expect(stored).not.toContain(secret);
    }
    expect(fixture.logged).toHaveLength(2);
  });
});

onBothEngines('change of password', (open) => {
  const change = (oldPassword: string, newPassword: string) => ({ oldPassword, newPassword });

  test('ends every login at once here and within a second in another process; keeps API keys', async () => {
    const fixture = await openFixture(open);
    const otherServer = await secondProcess(open, fixture);
    const { token, caller } = await annaOf(fixture);
    const second = await tokenOf(fixture, 'anna', "anna's password");
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    for (const one of [token, second]) {
      await callerOf(fixture, one);
      await callerOf(otherServer, one);
    }
    await fixture.access.changePassword(caller, change("anna's password", 'a better password'));
    for (const one of [token, second]) await expectRefused(callerOf(fixture, one), 'not_logged_in');
    fixture.clock.nowMs += SECOND;
    for (const one of [token, second]) await expectRefused(callerOf(otherServer, one), 'not_logged_in');
    const program = await fixture.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    expect(program.username).toBe('anna');
    await expectRefused(fixture.access.login({ username: 'anna', password: "anna's password" }, HOME), 'not_logged_in');
    expect(await tokenOf(fixture, 'anna', 'a better password')).toMatch(/\./);
    expect(await tokenOf(fixture)).toMatch(/\./);
    expect(await eventKinds(fixture.store, caller.accountId)).toContain('account.passwordChanged');
  });

  test('requires the old password; limits wrong ones apart from logins', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    for (let i = 0; i < 10; i++) {
      await expectRefused(
        fixture.access.changePassword(caller, change('a guess', 'x'.repeat(8))),
        'forbidden',
        /old password is wrong/,
      );
    }
    const refusal = await expectRefused(
      fixture.access.changePassword(caller, change("anna's password", 'x'.repeat(8))),
      'too_many_requests',
    );
    expect(refusal.retryAfterS).toBe(60);
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
    expect(await tokenOf(fixture, 'anna', "anna's password")).toMatch(/\./);
  });

  test('accepts one of two concurrent changes; a concurrent login with the old password does not survive', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const tries = await Promise.allSettled([
      fixture.access.changePassword(caller, change("anna's password", 'first new one')),
      fixture.access.changePassword(caller, change("anna's password", 'second new one')),
      ...Array.from({ length: 20 }, () => tokenOf(fixture, 'anna', "anna's password")),
    ]);
    expect(
      tries
        .slice(0, 2)
        .map(({ status }) => status)
        .sort(),
    ).toEqual(['fulfilled', 'rejected']);
    for (const attempt of tries.slice(2)) {
      if (attempt.status === 'fulfilled')
        await expectRefused(callerOf(fixture, String(attempt.value)), 'not_logged_in');
      else expect(attempt.reason).toBeInstanceOf(Refusal);
    }
    const live = await fixture.store.read
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
    const fixture = await openFixture(open);
    expect(await fixture.access.ensureAdmin({ password: 'another one', balance: 5 })).toBe(false);
    const admin = await adminOf(fixture);
    expect(admin).toMatchObject({ username: 'admin', roles: ['admin'], email: '' });
    expect(await fixture.access.balance(admin)).toEqual({
      balance: 1000,
      availableBalance: 1000,
      availableVoucherAmount: 0,
      availableCreditAmount: 0,
    });
  });

  test('creates one first account when two processes start together', async () => {
    const fixture = await openFixture(open);
    await fixture.store.write((tx) => tx.deleteFrom('account').execute());
    const otherServer = await secondProcess(open, fixture);
    const made = await Promise.all(
      [fixture, otherServer].map((one) => one.access.ensureAdmin({ password: ADMIN_PASSWORD, balance: 1 })),
    );
    expect(made.sort()).toEqual([false, true]);
    expect(await tokenOf(otherServer)).toMatch(/\./);
  });

  const body = { username: 'bert', email: 'Bert@Example.org', password: "bert's password", balance: 0.1 };

  test('lets only an administrator create accounts; names and emails are unique in any letter case', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    await expectRefused(fixture.access.createUser(caller, body, null), 'forbidden', /administrator/);
    const admin = await adminOf(fixture);
    const made = await fixture.access.createUser(admin, body, null);
    expect(made).toEqual({ userId: expect.any(String), username: 'bert', email: 'bert@example.org', group: ['user'] });
    await expectRefused(
      fixture.access.createUser(admin, { ...body, email: '' }, null),
      'name_taken',
      /username "bert" is taken/,
    );
    const sameMail = { ...body, username: 'carl', email: 'BERT@example.ORG' };
    await expectRefused(
      fixture.access.createUser(admin, sameMail, null),
      'name_taken',
      /email "bert@example.org" belongs/,
    );
    for (const username of ['d', 'e']) await fixture.access.createUser(admin, { ...body, username, email: '' }, null);
    const bert = await callerOf(fixture, await tokenOf(fixture, 'bert', body.password));
    expect((await fixture.access.balance(bert)).balance).toBe(0.1);
    expect(await eventKinds(fixture.store, made.userId)).toEqual(['account.created', 'account.loggedIn']);
  });

  test('creates one account for ten concurrent requests of one name', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) =>
        fixture.access.createUser(admin, { ...body, email: i % 2 ? body.email : '' }, null),
      ),
    );
    const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(refused).toHaveLength(9);
    for (const reason of refused) expect(reason).toMatchObject({ code: 'name_taken' });
  });

  test('repeats the answer for an equal key and body; another password counts as another body', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const first = await fixture.access.createUser(admin, body, keyed('k', '/user/create', 'hash of the body'));
    const again = await fixture.access.createUser(admin, body, keyed('k', '/user/create', 'hash of the body'));
    expect(again).toEqual(first);
    const other = fixture.access.createUser(admin, body, keyed('k', '/user/create', 'hash of another'));
    await expectRefused(other, 'idempotency_mismatch');
    // The body holds the password: a fast hash of it would be an oracle.
    expect(await everythingIn(fixture.store)).not.toContain('hash of the body');
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
    const buckets = [
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
    for (const [address, bucket] of buckets) expect(addressBucket(address), address).toBe(bucket);
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
