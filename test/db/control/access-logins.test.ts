/** Login, rate limit, change of password, and accounts. */
import { randomBytes } from 'node:crypto';
import { decodeJwt } from 'jose';
import { expect, test } from 'vitest';
import { makePasswords, type Argon2id } from '../../../src/control/access/passwords.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { cheapArgon2id } from '../../fixtures/cheap-argon2id.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  ADMIN_PASSWORD,
  HOME,
  DAY,
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

/** Accounts with the passwords `password of <name>`; returns their names. */
async function accountsIn(fixture: AccessFixture, count: number): Promise<string[]> {
  const admin = await adminOf(fixture);
  const names = Array.from({ length: count }, (_, index) => `member-${index}`);
  for (const username of names)
    await fixture.access.createUser(
      admin,
      { username, email: '', password: `password of ${username}`, balance: 0 },
      null,
    );
  return names;
}

/** Holds hashes while closed. `passwords`: those whose hash has started since. */
function gatedArgon2id() {
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const passwords: string[] = [];
  let onStart = (): void => {};
  const argon2id: Argon2id = async (parameters) => {
    const { message } = parameters;
    passwords.push(Buffer.isBuffer(message) ? message.toString() : '');
    onStart();
    await gate.promise;
    return cheapArgon2id(parameters);
  };
  return {
    argon2id,
    passwords,
    close() {
      passwords.length = 0;
      gate = Promise.withResolvers();
    },
    open: () => gate.resolve(),
    until: (count: number) =>
      new Promise<void>((resolve) => {
        onStart = () => {
          if (passwords.length >= count) resolve();
        };
        onStart();
      }),
  };
}

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

  test('blocks a name after ten wrong passwords; a success in between does not count', async () => {
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
    expect(looked).toBe(10);
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

  test('admits two hundred concurrent logins of ten accounts from one address', async () => {
    const fixture = await openFixture(open);
    const names = await accountsIn(fixture, 10);
    const tokens = await Promise.all(
      names.flatMap((name) => Array.from({ length: 20 }, () => tokenOf(fixture, name, `password of ${name}`))),
    );
    expect(new Set(tokens).size).toBe(200);
  });

  test('hashes for another account while 150 logins of one account wait', async () => {
    const gate = gatedArgon2id();
    const fixture = await openFixture(open, { argon2id: gate.argon2id });
    const [busy = '', other = ''] = await accountsIn(fixture, 2);
    gate.close();
    const flood = Array.from({ length: 150 }, () => tokenOf(fixture, busy, `password of ${busy}`));
    const login = tokenOf(fixture, other, `password of ${other}`);
    await gate.until(2);
    expect(gate.passwords.toSorted()).toEqual([`password of ${busy}`, `password of ${other}`]);
    gate.open();
    expect(await login).toMatch(/\./);
    await Promise.allSettled(flood);
  });

  test('queues an unknown name as a known one', async () => {
    const gate = gatedArgon2id();
    const fixture = await openFixture(open, { argon2id: gate.argon2id });
    const waves: string[][] = [];
    for (const username of ['admin', 'nobody']) {
      gate.close();
      const tries = Array.from({ length: 4 }, (_, index) =>
        refusalOf(fixture.access.login({ username, password: `try ${index} of the name` }, '198.51.100.3')),
      );
      const other = refusalOf(fixture.access.login({ username: 'other', password: 'other' }, '198.51.100.4'));
      await gate.until(2);
      waves.push(gate.passwords.map((password) => password.replace(/\d/, 'n')).toSorted());
      gate.open();
      for (const one of [...tries, other]) expect((await one).code).toBe('not_logged_in');
    }
    expect(waves[0]).toEqual(['other', 'try n of the name']);
    expect(waves[1]).toEqual(waves[0]);
  });

  test('admits thirty logins of an account at once, then one every two seconds', async () => {
    const fixture = await openFixture(open);
    const [name = '', other = ''] = await accountsIn(fixture, 2);
    const login = () => tokenOf(fixture, name, `password of ${name}`);
    const logins = await Promise.allSettled(Array.from({ length: 40 }, login));
    expect(logins.filter(({ status }) => status === 'fulfilled')).toHaveLength(30);
    const refusal = await expectRefused(
      login(),
      'too_many_requests',
      /limit is 30 logins at once, then one every 2 seconds\. Wait 2 seconds .*token of an earlier login/,
    );
    expect(refusal.retryAfterS).toBe(2);
    const sessions = await fixture.store.read
      .selectFrom('session')
      .innerJoin('account', 'account.id', 'session.accountId')
      .where('username', '=', name)
      .select('session.id')
      .execute();
    expect(sessions).toHaveLength(30);
    // Without the password, nobody sees the limit, and with it the name.
    await expectRefused(wrongLogin(fixture, name, '203.0.113.9'), 'not_logged_in', WRONG);
    expect(await tokenOf(fixture, other, `password of ${other}`)).toMatch(/\./);
    fixture.clock.nowMs += 2 * SECOND;
    expect(await login()).toMatch(/\./);
    await expectRefused(login(), 'too_many_requests');
  });

  test('counts logins by the monotonic clock: a system date set back refuses nobody', async () => {
    const fixture = await openFixture(open);
    const [name = ''] = await accountsIn(fixture, 1);
    const login = () => tokenOf(fixture, name, `password of ${name}`);
    const wrong = () => expectRefused(wrongLogin(fixture, name), 'not_logged_in');
    await login();
    await wrong();
    for (const stepMs of [60 * MINUTE, DAY, 30 * DAY]) {
      fixture.clock.nowMs -= stepMs;
      expect(await login()).toMatch(/\./);
      await wrong();
    }
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
        fixture.access.changePassword(caller, change('a guess', 'a better password')),
        'forbidden',
        /old password is wrong/,
      );
    }
    const refusal = await expectRefused(
      fixture.access.changePassword(caller, change("anna's password", 'a better password')),
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

  test('refuses passwords that are guessed first, for new accounts and new passwords', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const { caller } = await annaOf(fixture);
    const before = fixture.hashes.length;
    const refused: [string, RegExp][] = [
      ['12345678', /is one of the most common passwords: choose/],
      ['P@ssw0rd', /is one of the most common passwords/],
      ['        ', /repeats a few characters/],
      ['abcd1234efgh', /is a sequence/],
      ['\ud800aaaaaaa', /has half of a character/],
    ];
    for (const [password, why] of refused) {
      const account = { ...body, password };
      const made = await expectRefused(fixture.access.createUser(admin, account, null), 'field_value', why);
      expect(made.message).toMatch(/^field "password" /);
      const change = { oldPassword: "anna's password", newPassword: password };
      const changed = await expectRefused(fixture.access.changePassword(caller, change), 'field_value', why);
      expect(changed.message).toMatch(/^field "newPassword" /);
      expect(made.message + changed.message).not.toContain(password);
    }
    const own = { ...body, username: 'bert.olsen', password: 'Bert.Olsen' };
    await expectRefused(fixture.access.createUser(admin, own, null), 'field_value', /is the name or email/);
    const mine = { oldPassword: "anna's password", newPassword: 'anna@EXAMPLE.org' };
    await expectRefused(fixture.access.changePassword(caller, mine), 'field_value', /is the name or email/);
    expect(fixture.hashes.length).toBe(before);
    await fixture.access.createUser(admin, body, null);
  });

  test('refuses a weak first password of the installation, and says where to set another', async () => {
    const fixture = await openFixture(open);
    await fixture.store.write((tx) => tx.deleteFrom('account').execute());
    const weak = { password: 'password123', balance: 1 };
    await expect(fixture.access.ensureAdmin(weak)).rejects.toThrow(
      /first password of "admin" is one of the most common.*Set BERTH_ADMIN_PASSWORD/,
    );
    expect(await fixture.access.ensureAdmin({ ...weak, password: ADMIN_PASSWORD })).toBe(true);
    // An existing account keeps its password, whatever is configured.
    expect(await fixture.access.ensureAdmin(weak)).toBe(false);
  });

  test('logs in an account whose weak password is older than the rules', async () => {
    const fixture = await openFixture(open);
    await annaOf(fixture);
    const { hash } = makePasswords({ randomBytes, argon2id: cheapArgon2id, atOnce: 1 });
    for (const old of ['12345678', '\ud800aaaaaaa']) {
      const passwordHash = await hash(old, { account: 'anna', address: null });
      await fixture.store.write((tx) =>
        tx.updateTable('account').set({ passwordHash }).where('username', '=', 'anna').execute(),
      );
      expect(await tokenOf(fixture, 'anna', old)).toMatch(/\./);
    }
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
