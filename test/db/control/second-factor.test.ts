/** Authenticator app and recovery codes of an account, over a real store and a clock by hand. */
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import type { AccessDeps } from '../../../src/control/access/access.ts';
import { insertPasskey, usePasskey } from '../../../src/store/tables/second-factors.ts';
import { needsProgram } from '../../fixtures/programs.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  HOME,
  MINUTE,
  SECOND,
  accessFixtureOver,
  adminOf,
  annaOf,
  callerOf,
  eventKinds,
  everythingIn,
  expectRefused,
  openFixture,
  refusalOf,
  secondProcess,
  tokenOf,
  type AccessFixture,
} from './access-fixture.ts';
import { codeAt, withTotp } from './totp-fixture.ts';

const PASSWORD = "anna's password";
const STEP = 30 * SECOND;
const WRONG = 'The username (or email) or the password is wrong. Check both and log in again.';

const loginWith = (fixture: AccessFixture, code?: string, from = HOME) =>
  fixture.access.login({ username: 'anna', password: PASSWORD, code }, from);

async function expectCodeRefused(fixture: AccessFixture, code?: string, from = HOME): Promise<void> {
  const refusal = await refusalOf(loginWith(fixture, code, from));
  expect(refusal).toMatchObject({ code: 'not_logged_in', message: WRONG, secondFactor: 'code' });
}

onBothEngines('second factor', { postgres: 'always' }, (open) => {
  test('a login needs the code of the app, and only the right password gets the hint', async () => {
    const fixture = await openFixture(open);
    const { secret, caller } = await withTotp(fixture);
    await expectCodeRefused(fixture);
    await expectCodeRefused(fixture, '');
    await expectCodeRefused(fixture, '000000');
    await expectCodeRefused(fixture, 'no code');
    const code = codeAt(secret, fixture.clock.nowMs + STEP);
    const wrongPassword = await refusalOf(
      fixture.access.login({ username: 'anna', password: 'not the password', code }, HOME),
    );
    expect(wrongPassword).toMatchObject({ code: 'not_logged_in', message: WRONG, secondFactor: undefined });
    const unknown = await refusalOf(fixture.access.login({ username: 'nobody', password: 'x', code }, HOME));
    expect(unknown).toMatchObject({ message: WRONG, secondFactor: undefined });
    fixture.clock.nowMs += STEP;
    const { accessToken } = await loginWith(fixture, codeAt(secret, fixture.clock.nowMs));
    expect((await callerOf(fixture, accessToken)).accountId).toBe(caller.accountId);
  });

  test('a code is good once: here, in another process and after a restart', async () => {
    const fixture = await openFixture(open);
    const { secret } = await withTotp(fixture);
    fixture.clock.nowMs += STEP;
    const code = codeAt(secret, fixture.clock.nowMs);
    await loginWith(fixture, code);
    await expectCodeRefused(fixture, code);
    const other = await secondProcess(open, fixture);
    await expectCodeRefused(other, code);
    // A later code makes those before it void.
    await loginWith(other, codeAt(secret, fixture.clock.nowMs + STEP));
    await expectCodeRefused(fixture, codeAt(secret, fixture.clock.nowMs + STEP));
    await expectCodeRefused(fixture, code);
  });

  test('refuses one of two logins at once with one code', async () => {
    const fixture = await openFixture(open);
    const { secret } = await withTotp(fixture);
    const other = await secondProcess(open, fixture);
    fixture.clock.nowMs += STEP;
    const code = codeAt(secret, fixture.clock.nowMs);
    const outcomes = await Promise.allSettled([fixture, other].map((one) => loginWith(one, code)));
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  test('takes the codes of one step before and after the present one, and no others', async () => {
    const fixture = await openFixture(open);
    const { secret } = await withTotp(fixture);
    fixture.clock.nowMs += 20 * STEP;
    const { nowMs } = fixture.clock;
    await expectCodeRefused(fixture, codeAt(secret, nowMs - 2 * STEP));
    await expectCodeRefused(fixture, codeAt(secret, nowMs + 2 * STEP));
    for (const steps of [-1, 0, 1]) await loginWith(fixture, codeAt(secret, nowMs + steps * STEP));
  });

  test('the code that confirms the app opens no login', async () => {
    const fixture = await openFixture(open);
    const { code } = await withTotp(fixture);
    await expectRefused(loginWith(fixture, code), 'not_logged_in');
  });

  test('gives ten recovery codes, good once each, and stores and logs none of them', async () => {
    const fixture = await openFixture(open);
    const { recoveryCodes, secret, caller } = await withTotp(fixture);
    expect(new Set(recoveryCodes).size).toBe(10);
    for (const code of recoveryCodes) expect(code).toMatch(/^[0-9a-f]{5}(-[0-9a-f]{5}){3}$/);
    const [first = '', second = '', third = ''] = recoveryCodes;
    await loginWith(fixture, first);
    await expectCodeRefused(fixture, first);
    // As people type them.
    await loginWith(fixture, ` ${second.toUpperCase().replaceAll('-', ' ')}`);
    await expectCodeRefused(await secondProcess(open, fixture), second);
    expect((await fixture.access.secondFactors.get(caller)).recoveryCodes).toBe(8);
    const stored = (await everythingIn(fixture.store)) + JSON.stringify(fixture.logged);
    for (const hidden of [third, third.replaceAll('-', ''), secret]) expect(stored).not.toContain(hidden);
    expect(await eventKinds(fixture.store, caller.accountId)).toContain('account.recoveryCodeUsed');
  });

  test('wrong codes are limited over all addresses, and no right code counts', async () => {
    const fixture = await openFixture(open);
    const { secret } = await withTotp(fixture);
    const from = (index: number) => `198.51.100.${index}`;
    for (let index = 0; index < 12; index += 1) {
      fixture.clock.nowMs += STEP;
      await loginWith(fixture, codeAt(secret, fixture.clock.nowMs), '203.0.113.9');
    }
    for (let index = 0; index < 10; index += 1) await expectCodeRefused(fixture, '000000', from(index));
    fixture.clock.nowMs += STEP;
    const right = codeAt(secret, fixture.clock.nowMs);
    await expectRefused(loginWith(fixture, right, from(20)), 'too_many_requests', /codes of the second factor/);
    // The address that has logged in has a count of its own.
    await loginWith(fixture, right, '203.0.113.9');
    fixture.clock.nowMs += 10 * MINUTE;
    await loginWith(fixture, codeAt(secret, fixture.clock.nowMs), from(21));
  });

  test('checks ten of fifty wrong codes at once', async () => {
    const fixture = await openFixture(open);
    const { secret } = await withTotp(fixture);
    const tries = Array.from({ length: 50 }, () => refusalOf(loginWith(fixture, '000000', '198.51.100.1')));
    const codes = (await Promise.all(tries)).map(({ code }) => code);
    expect(codes.filter((code) => code === 'not_logged_in')).toHaveLength(10);
    expect(codes.filter((code) => code === 'too_many_requests')).toHaveLength(40);
    fixture.clock.nowMs += STEP;
    const right = codeAt(secret, fixture.clock.nowMs);
    await expectRefused(loginWith(fixture, right, '198.51.100.1'), 'too_many_requests');
  });

  test('a set-up needs the password and a right code, and ends the other logins, not API keys', async () => {
    const fixture = await openFixture(open);
    const { caller, token } = await annaOf(fixture);
    const otherToken = await tokenOf(fixture, 'anna', PASSWORD);
    const { key } = await fixture.access.createApiKey(caller, { name: 'program' }, null);
    const { secondFactors } = fixture.access;
    await expectRefused(secondFactors.createTotp(caller, { password: 'wrong' }), 'forbidden', /password is wrong/);
    await expectRefused(secondFactors.confirmTotp(caller, { code: '123456' }), 'not_now');
    const program = await fixture.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    await expectRefused(secondFactors.createTotp(program, { password: PASSWORD }), 'forbidden', /API key/);

    const abandoned = await secondFactors.createTotp(caller, { password: PASSWORD });
    const { secret, uri } = await secondFactors.createTotp(caller, { password: PASSWORD });
    expect(uri).toBe(
      `otpauth://totp/Berth%20gpu.test:anna?issuer=Berth%20gpu.test&secret=${secret}&algorithm=SHA1&digits=6&period=30`,
    );
    const now = fixture.clock.nowMs;
    await expectRefused(secondFactors.confirmTotp(caller, { code: codeAt(abandoned.secret, now) }), 'field_value');
    // Nothing counts before the first right code.
    await tokenOf(fixture, 'anna', PASSWORD);
    await secondFactors.confirmTotp(caller, { code: codeAt(secret, now) });
    expect(await secondFactors.get(caller)).toEqual({
      factors: ['totp'],
      recoveryCodes: 10,
      passkeys: [],
      isRequired: false,
      mustSetUp: false,
    });
    await expectRefused(callerOf(fixture, otherToken), 'not_logged_in');
    expect((await callerOf(fixture, token)).sessionId).toBe(caller.sessionId);
    expect((await fixture.access.authenticate({ kind: 'apiKey', key: key.fullKey })).username).toBe('anna');
    expect(await eventKinds(fixture.store, caller.accountId)).toContain('account.secondFactorAdded');
  }, 60_000);

  test('is removed with password and code, which also replace the recovery codes', async () => {
    const fixture = await openFixture(open);
    const { caller, secret, recoveryCodes } = await withTotp(fixture);
    const { secondFactors } = fixture.access;
    const [first = '', second = ''] = recoveryCodes;
    await expectRefused(secondFactors.createTotp(caller, { password: PASSWORD, code: first }), 'not_now', /remove it/);
    await expectRefused(secondFactors.deleteTotp(caller, { password: PASSWORD }), 'forbidden', /"code"/);
    await expectRefused(secondFactors.deleteTotp(caller, { password: 'wrong', code: first }), 'forbidden', /password/);
    await expectRefused(secondFactors.createRecoveryCodes(caller, { password: PASSWORD }), 'forbidden', /"code"/);
    const fresh = await secondFactors.createRecoveryCodes(caller, { password: PASSWORD, code: first });
    expect(fresh.recoveryCodes).toHaveLength(10);
    await expectCodeRefused(fixture, second);
    const { accessToken } = await loginWith(fixture, fresh.recoveryCodes[0]);
    fixture.clock.nowMs += STEP;
    await secondFactors.deleteTotp(caller, { password: PASSWORD, code: codeAt(secret, fixture.clock.nowMs) });
    await expectRefused(callerOf(fixture, accessToken), 'not_logged_in');
    expect(await secondFactors.get(caller)).toMatchObject({ factors: [], recoveryCodes: 0 });
    await tokenOf(fixture, 'anna', PASSWORD);
    expect(await eventKinds(fixture.store, caller.accountId)).toContain('account.secondFactorRemoved');
  });

  test('an administrator sees who has one, and resets that of another account', async () => {
    const fixture = await openFixture(open);
    const { caller, token } = await withTotp(fixture);
    const admin = await adminOf(fixture);
    const { administration } = fixture.access;
    const seen = async () => {
      const { accounts } = await administration.list({}, { currentPage: 1, pageSize: 10 });
      return Object.fromEntries(accounts.map(({ username, secondFactors }) => [username, secondFactors]));
    };
    expect(await seen()).toEqual({ admin: [], anna: ['totp'] });
    await expectRefused(administration.resetSecondFactor(caller, { accountId: admin.accountId }, null), 'forbidden');
    await expectRefused(
      administration.resetSecondFactor(admin, { accountId: admin.accountId }, null),
      'not_now',
      /your own/,
    );
    await administration.resetSecondFactor(admin, { accountId: caller.accountId }, null);
    expect(await seen()).toEqual({ admin: [], anna: [] });
    await expectRefused(callerOf(fixture, token), 'not_logged_in');
    await tokenOf(fixture, 'anna', PASSWORD);
    expect(await eventKinds(fixture.store, caller.accountId)).toContain('account.secondFactorReset');
  });
});

onBothEngines('a second factor that a role needs', (open) => {
  const required: Partial<AccessDeps> = { secondFactorRole: 'admin' };

  test('limits a login without one to the set-up, and opens the rest with it', async () => {
    const fixture = await openFixture(open, required);
    const { access } = fixture;
    const token = await tokenOf(fixture);
    const limited = await expectRefused(callerOf(fixture, token), 'forbidden', /second factor/);
    expect(limited.secondFactor).toBe('setUp');
    const caller = await access.authenticate({ kind: 'token', token }, { settingUp: true });
    expect(await access.secondFactors.get(caller)).toMatchObject({ isRequired: true, mustSetUp: true });
    const { secret, code } = await withTotp(fixture, { caller, password: 'correct horse battery staple' });
    expect((await callerOf(fixture, token)).username).toBe('admin');
    expect(code).toHaveLength(6);
    fixture.clock.nowMs += STEP;
    const removal = { password: 'correct horse battery staple', code: codeAt(secret, fixture.clock.nowMs) };
    await access.secondFactors.deleteTotp(caller, removal);
    await expectRefused(callerOf(fixture, token), 'forbidden', /second factor/);
  });

  test('asks nothing of lower roles, API keys and logins by a provider', async () => {
    const fixture = await openFixture(open);
    const { access, store } = fixture;
    const { key } = await access.createApiKey(await adminOf(fixture), { name: 'program' }, null);
    const { token } = await annaOf(fixture);
    const strict = accessFixtureOver(store, fixture.clock, required);
    expect((await callerOf(strict, token)).username).toBe('anna');
    expect((await strict.access.authenticate({ kind: 'apiKey', key: key.fullKey })).username).toBe('admin');
    const identity = {
      issuer: 'https://login.test',
      subject: 's',
      username: 'boss',
      email: '',
      sid: null,
      role: 'admin' as const,
    };
    const signed = await strict.access.signOn(identity, { linksByEmail: false }, HOME);
    expect((await callerOf(strict, signed.accessToken)).roles).toEqual(['admin']);
  });
});

onBothEngines('the counter of a passkey', (open) => {
  test('grows with each use, and stays 0 for an authenticator without one', async () => {
    const { store, access } = await openFixture(open);
    const { accounts } = await access.administration.list({}, { currentPage: 1, pageSize: 1 });
    const accountId = accounts[0]?.accountId ?? '';
    const row = { accountId, name: 'p', publicKey: 'k', transports: '[]', createdAtMs: 1, lastUsedAtMs: null };
    const uses = async (id: string, ...counters: number[]): Promise<boolean[]> => {
      const outcomes: boolean[] = [];
      for (const counter of counters)
        outcomes.push(await store.write((tx) => usePasskey(tx, id, { counter, nowMs: 2 })));
      return outcomes;
    };
    const add = (id: string) => store.write((tx) => insertPasskey(tx, { ...row, id, credentialId: id, counter: 0 }));
    expect([await add('counts'), await add('rests'), await add('counts')]).toEqual([true, true, false]);
    expect(await uses('counts', 1, 2, 2, 1, 0, 7)).toEqual([true, true, false, false, false, true]);
    expect(await uses('rests', 0, 0)).toEqual([true, true]);
    expect(await uses('unknown', 1)).toEqual([false]);
  });
});

describe('codes of other programs', () => {
  test('oathtool makes the codes of the secret', (context) => {
    needsProgram('oathtool', context);
    const secret = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';
    for (const atMs of [59 * SECOND, 1_750_000_000_000, 1_999_999_999_000]) {
      const at = `@${Math.floor(atMs / 1_000)}`;
      const made = execFileSync('oathtool', ['--totp', '--base32', `--now=${at}`, secret], { encoding: 'utf8' });
      expect(made.trim()).toBe(codeAt(secret, atMs));
    }
  });
});
