/** Administration of accounts: list, disable, roles, invitations and resets. */
import { decodeJwt } from 'jose';
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  adminOf,
  annaOf,
  callerOf,
  DAY,
  eventKinds,
  everythingIn,
  expectRefused,
  HOME,
  keyed,
  openFixture,
  tokenOf,
  type AccessFixture,
} from './access-fixture.ts';

const administration = ({ access }: AccessFixture) => access.administration;
const idOf = (caller: Caller): { accountId: string } => ({ accountId: caller.accountId });
const tokenIn = (url: string): string => new URL(url).searchParams.get('token') ?? '';
const everyone = { currentPage: 1, pageSize: 100 };

async function memberOf(fixture: AccessFixture, admin: Caller, username: string, role: 'user' | 'admin') {
  const password = `a password of ${username}`;
  const { url, accountId } = await administration(fixture).invite(admin, { username, email: '', role }, null);
  await administration(fixture).setPassword({ token: tokenIn(url), newPassword: password }, HOME);
  return { accountId, caller: await callerOf(fixture, await tokenOf(fixture, username, password)), password };
}

onBothEngines('administration of accounts', (open) => {
  test('lists accounts by part of the name or email, role and state', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const { caller: anna } = await annaOf(fixture);
    await memberOf(fixture, admin, 'ben_100', 'admin');
    const names = async (filter: Parameters<ReturnType<typeof administration>['list']>[0]) =>
      (await administration(fixture).list(filter, everyone)).accounts.map(({ username }) => username).toSorted();
    expect(await names({})).toEqual(['admin', 'anna', 'ben_100']);
    expect(await names({ search: 'NNA@exa' })).toEqual(['anna']);
    expect(await names({ search: '_' })).toEqual(['ben_100']);
    expect(await names({ role: 'admin' })).toEqual(['admin', 'ben_100']);
    await administration(fixture).disable(admin, { ...idOf(anna), reason: 'left' }, null);
    expect(await names({ state: 'disabled' })).toEqual(['anna']);
    expect(await names({ state: 'active', role: 'user' })).toEqual([]);
    const page = await administration(fixture).list({}, { currentPage: 2, pageSize: 2 });
    expect(page).toMatchObject({ totalEntries: 3, accounts: [expect.anything()] });
  });

  test('a disable ends logins, keys, gateway sessions and links at once, and says why at a login', async () => {
    const fixture = await openFixture(open);
    const { access, store } = fixture;
    const admin = await adminOf(fixture);
    const { caller: anna, token } = await annaOf(fixture);
    const { key } = await access.createApiKey(anna, { name: 'mine' }, null);
    const redeemed = await access.grants.redeem(await access.grants.grant(anna, 'notebook-x'));
    const secret = redeemed?.session ?? '';
    const { url } = await administration(fixture).resetPassword(admin, idOf(anna), null);
    const works = async (): Promise<boolean[]> => {
      const authenticated = [
        access.authenticate({ kind: 'token', token }),
        access.authenticate({ kind: 'apiKey', key: key.fullKey }),
      ].map((one) => one.then(() => true).catch(() => false));
      const session = await access.grants.session(secret);
      const link = await administration(fixture).linkOf(tokenIn(url));
      return [...(await Promise.all(authenticated)), session !== null, link !== null];
    };
    expect(await works()).toEqual([true, true, true, true]);

    const disabled = await administration(fixture).disable(admin, { ...idOf(anna), reason: 'unpaid' }, null);
    expect(disabled.account).toMatchObject({ state: 'disabled', reason: 'unpaid', disabledAtMs: fixture.clock.nowMs });
    expect(await works()).toEqual([false, false, false, false]);
    await expectRefused(tokenOf(fixture, 'anna', "anna's password"), 'forbidden', /disabled \(unpaid\).*administrator/);
    await expectRefused(administration(fixture).resetPassword(admin, idOf(anna), null), 'not_now', /enable it first/);

    const enabled = await administration(fixture).enable(admin, idOf(anna), null);
    expect(enabled.account).toMatchObject({ state: 'active', reason: '', disabledAtMs: null });
    // Keys of programs come back; logins and links do not.
    expect(await works()).toEqual([false, true, false, false]);
    expect(await tokenOf(fixture, 'anna', "anna's password")).toMatch(/\./);
    expect(await eventKinds(store, anna.accountId)).toEqual(
      expect.arrayContaining(['account.disabled', 'account.enabled']),
    );
  });

  test('never loses the last enabled administrator, also by two requests at once', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const only = /last enabled administrator/;
    const { setRole, disable, enable } = administration(fixture);
    await expectRefused(setRole(admin, { ...idOf(admin), role: 'operator' }, null), 'not_now', only);
    await expectRefused(disable(admin, { ...idOf(admin), reason: '' }, null), 'not_now', only);
    const { caller: ben } = await memberOf(fixture, admin, 'ben', 'admin');
    const outcomes = await Promise.allSettled([
      setRole(admin, { ...idOf(ben), role: 'user' }, null),
      disable(ben, { ...idOf(admin), reason: '' }, null),
    ]);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    const left = await administration(fixture).list({ role: 'admin', state: 'active' }, everyone);
    expect(left.accounts).toHaveLength(1);
    const [by] = left.accounts[0]?.username === 'admin' ? [admin] : [ben];
    // A disabled administrator does not count.
    const other = by === admin ? ben : admin;
    await setRole(by, { ...idOf(other), role: 'admin' }, null);
    await disable(by, { ...idOf(other), reason: '' }, null);
    await expectRefused(setRole(by, { ...idOf(by), role: 'user' }, null), 'not_now', only);
    await enable(by, idOf(other), null);
    expect((await setRole(by, { ...idOf(by), role: 'user' }, null)).account.role).toBe('user');
  });

  test('a new role counts at once, and one who lost the role administers no more', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const { caller: ben, password } = await memberOf(fixture, admin, 'ben', 'user');
    const token = await tokenOf(fixture, 'ben', password);
    const { setRole } = administration(fixture);
    await setRole(admin, { ...idOf(ben), role: 'operator' }, null);
    expect((await callerOf(fixture, token)).roles).toEqual(['operator']);
    expect(decodeJwt(await tokenOf(fixture, 'ben', password))).toMatchObject({ group: ['operator'] });
    await expectRefused(setRole(ben, { ...idOf(ben), role: 'admin' }, null), 'forbidden', /only administrators/);
    await expectRefused(setRole(admin, { accountId: 'nobody', role: 'admin' }, null), 'not_found', /account\/list/);
  });
});

onBothEngines('links that set a password', (open) => {
  test('an invitation has no password until its link is used, once', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const { invite, linkOf, setPassword } = administration(fixture);
    const body = { username: 'carl', email: 'Carl@Example.org', role: 'operator' as const };
    const { url, accountId, expiresAtMs } = await invite(admin, body, null);
    expect(expiresAtMs).toBe(fixture.clock.nowMs + 7 * DAY);
    const token = tokenIn(url);
    expect(await everythingIn(fixture.store)).not.toContain(token);
    await expectRefused(tokenOf(fixture, 'carl', ''), 'not_logged_in');
    expect(await linkOf(token)).toEqual({ accountId, username: 'carl', kind: 'invite' });
    expect(await linkOf(`${token.slice(0, -1)}_`)).toBeNull();

    await expectRefused(setPassword({ token, newPassword: 'carl@example.org' }, HOME), 'field_value', /newPassword/);
    await setPassword({ token, newPassword: 'eight sheep jump' }, HOME);
    const caller = await callerOf(fixture, await tokenOf(fixture, 'carl@example.org', 'eight sheep jump'));
    expect(caller).toMatchObject({ username: 'carl', roles: ['operator'] });
    expect(await fixture.access.balance(caller)).toMatchObject({ balance: 1_000 });
    await expectRefused(setPassword({ token, newPassword: 'nine sheep jump' }, HOME), 'not_found', /used/);
    await expectRefused(invite(admin, { ...body, email: '' }, null), 'name_taken', /carl/);
    await expectRefused(invite(admin, { ...body, username: 'x' }, null), 'name_taken', /another account/);
  });

  test('a reset ends all logins when it sets the password, and replaces an earlier link', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const { caller: anna, token: login } = await annaOf(fixture);
    const { resetPassword, linkOf, setPassword } = administration(fixture);
    const first = await resetPassword(admin, idOf(anna), null);
    const second = await resetPassword(admin, idOf(anna), null);
    expect(await linkOf(tokenIn(first.url))).toBeNull();
    // Until then the person may log in.
    expect(await callerOf(fixture, login)).toMatchObject(idOf(anna));
    const [one, other] = ['a shiny new password', 'another new password'].map((newPassword) =>
      setPassword({ token: tokenIn(second.url), newPassword }, HOME),
    );
    const outcomes = await Promise.allSettled([one, other]);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expectRefused(callerOf(fixture, login), 'not_logged_in');
    await expectRefused(tokenOf(fixture, 'anna', "anna's password"), 'not_logged_in');
    expect(await eventKinds(fixture.store, anna.accountId)).toContain('account.passwordSet');
  });

  test('a link expires, and a repeated request does not show it again', async () => {
    const fixture = await openFixture(open);
    const admin = await adminOf(fixture);
    const { caller: anna } = await annaOf(fixture);
    const { resetPassword, linkOf } = administration(fixture);
    const key = keyed('k', '/admin/account/resetPassword');
    const { url } = await resetPassword(admin, idOf(anna), key);
    await expectRefused(resetPassword(admin, idOf(anna), key), 'not_now', /only its answer had the link/);
    fixture.clock.nowMs += DAY - 1;
    expect(await linkOf(tokenIn(url))).not.toBeNull();
    fixture.clock.nowMs += 1;
    expect(await linkOf(tokenIn(url))).toBeNull();
    await fixture.access.sweep();
    expect(await fixture.store.read.selectFrom('passwordLink').selectAll().execute()).toEqual([]);
  });
});
