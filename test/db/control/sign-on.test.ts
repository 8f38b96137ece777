/** Accounts of identities that a login provider vouches for. */
import { expect, test } from 'vitest';
import type { Identity } from '../../../src/domain/access/sign-on-rules.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { adminOf, annaOf, eventKinds, expectRefused, HOME, openFixture, type AccessFixture } from './access-fixture.ts';

const identity = (more: Partial<Identity> = {}): Identity => ({
  issuer: 'https://login.example',
  subject: 'subject-1',
  sid: null,
  username: 'berta',
  email: 'berta@example.org',
  role: null,
  ...more,
});

const signOn = ({ access }: AccessFixture, more: Partial<Identity> = {}, linksByEmail = false) =>
  access.signOn(identity(more), { linksByEmail }, HOME);

const callerBy = async (fixture: AccessFixture, ...given: [Partial<Identity>?, boolean?]) => {
  const { accessToken } = await signOn(fixture, ...given);
  return fixture.access.authenticate({ kind: 'token', token: accessToken });
};

onBothEngines('single sign-on', (open) => {
  test('makes one account for concurrent first logins, with an event of each step', async () => {
    const fixture = await openFixture(open);
    await Promise.allSettled(Array.from({ length: 5 }, () => signOn(fixture)));
    const caller = await callerBy(fixture);
    expect(await fixture.store.read.selectFrom('account').select('username').orderBy('username').execute()).toEqual([
      { username: 'admin' },
      { username: 'berta' },
    ]);
    const kinds = await eventKinds(fixture.store, caller.accountId);
    expect(kinds.slice(0, 3)).toEqual(['account.created', 'account.identityAdded', 'account.loggedIn']);
    expect(kinds.filter((kind) => kind !== 'account.loggedIn')).toHaveLength(2);
  });

  test('opens another account for the subject of another issuer, and keeps an account after a rename', async () => {
    const fixture = await openFixture(open);
    const { accountId } = await callerBy(fixture);
    expect((await callerBy(fixture, { username: 'renamed', email: 'new@example.org' })).accountId).toBe(accountId);
    const other = { issuer: 'https://other.example', username: 'other', email: '' };
    expect((await callerBy(fixture, other)).accountId).not.toBe(accountId);
  });

  test('accepts no password for an account that a provider opened', async () => {
    const fixture = await openFixture(open);
    await signOn(fixture);
    for (const password of ['', 'berta', 'four words not common'])
      await expectRefused(fixture.access.login({ username: 'berta', password }, HOME), 'not_logged_in');
  });

  test('links a verified email only if the operator allows it', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { email } = caller;
    await expectRefused(signOn(fixture, { email }), 'name_taken', /login provider does not open/);
    expect((await callerBy(fixture, { email }, true)).accountId).toBe(caller.accountId);
  });

  test('changes nothing of a disabled account: no identity, no role', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { accountId, email, roles } = caller;
    await fixture.store.write((tx) =>
      tx.updateTable('account').set({ disabled: 1 }).where('id', '=', accountId).execute(),
    );
    await expectRefused(signOn(fixture, { email, role: 'operator' }, true), 'forbidden', /account is disabled/);
    const { read } = fixture.store;
    expect(await read.selectFrom('identity').select('accountId').execute()).toEqual([]);
    const row = await read.selectFrom('account').select('roles').where('id', '=', accountId).executeTakeFirst();
    expect(row).toEqual({ roles: JSON.stringify(roles) });
    expect(await eventKinds(fixture.store, accountId)).not.toContain('account.identityAdded');
  });

  test('gives a name that is taken a number, and keeps it at the next login', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const others = [];
    for (const subject of ['one', 'two', 'one']) {
      const { otherName, accessToken } = await signOn(fixture, { subject, username: 'anna', email: '' });
      const { accountId, username } = await fixture.access.authenticate({ kind: 'token', token: accessToken });
      expect(accountId).not.toBe(caller.accountId);
      others.push([otherName, username]);
    }
    expect(others).toEqual([
      ['anna-2', 'anna-2'],
      ['anna-3', 'anna-3'],
      [null, 'anna-2'],
    ]);
    const long = 'x'.repeat(63);
    await signOn(fixture, { subject: 'three', username: long, email: '' });
    expect(await signOn(fixture, { subject: 'four', username: long, email: '' })).toMatchObject({
      otherName: `${'x'.repeat(61)}-2`,
    });
  });

  test('names the setting in the cause of an email address that is taken', async () => {
    const fixture = await openFixture(open);
    const { email } = (await annaOf(fixture)).caller;
    await expect(signOn(fixture, { email })).rejects.toMatchObject({
      detail: { claim: 'email', value: email, setting: 'BERTH_OIDC_LINK' },
    });
  });

  test('follows the roles of the provider, and leaves the last administrator', async () => {
    const fixture = await openFixture(open);
    const { email } = await adminOf(fixture);
    expect(email).toBe('');
    expect((await callerBy(fixture, { role: 'admin' })).roles).toEqual(['admin']);
    expect((await callerBy(fixture, { role: 'operator' })).roles).toEqual(['operator']);
    expect((await callerBy(fixture, { role: 'admin' })).roles).toEqual(['admin']);
    await fixture.store.write((tx) =>
      tx.updateTable('account').set({ disabled: 1 }).where('username', '=', 'admin').execute(),
    );
    expect((await callerBy(fixture, { role: 'user' })).roles).toEqual(['admin']);
  });
});
