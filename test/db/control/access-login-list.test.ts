/** Logins listed and ended one by one, and open registration. */
import { expect, test } from 'vitest';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  annaOf,
  callerOf,
  eventKinds,
  expectRefused,
  HOME,
  keyed,
  MINUTE,
  openFixture,
  tokenOf,
} from './access-fixture.ts';

onBothEngines('the list of logins', (open) => {
  test('shows where each login comes from and its last use, and ends the chosen one alone', async () => {
    const fixture = await openFixture(open);
    const { access, clock, store } = fixture;
    const { caller: anna, token } = await annaOf(fixture);
    clock.nowMs += MINUTE;
    const body = { username: 'anna', password: "anna's password" };
    const agent = `Mozilla\u0000/5.0 <b>${'x'.repeat(400)}`;
    const { accessToken: other } = await access.login(body, '2001:db8::1', agent);
    const there = await callerOf(fixture, other);
    const redeemed = await access.grants.redeem(await access.grants.grant(there, 'notebook-x'));
    const [newest, oldest, ...more] = (await access.listLogins(anna)).logins;
    expect(more).toEqual([]);
    expect(newest).toMatchObject({ id: there.sessionId, address: '2001:db8::1', current: false });
    expect(newest?.userAgent).toMatch(/^Mozilla\/5\.0 <b>x{200,}$/);
    expect(newest?.userAgent.length).toBeLessThanOrEqual(300);
    expect(oldest).toMatchObject({ id: anna.sessionId, address: HOME, userAgent: '', current: true });

    clock.nowMs += 3 * MINUTE;
    await callerOf(fixture, token);
    const minuteMs = clock.nowMs - (clock.nowMs % MINUTE);
    await expect
      .poll(() => access.listLogins(anna))
      .toMatchObject({ logins: [{ current: true, lastUsedAtUnixMs: minuteMs }, {}] });

    const id = there.sessionId ?? '';
    const key = keyed('k', '/user/login/revoke');
    await access.revokeLogin(anna, { id }, key);
    await access.revokeLogin(anna, { id }, key);
    await expectRefused(callerOf(fixture, other), 'not_logged_in');
    expect(await access.grants.session(redeemed?.session ?? '')).toBeNull();
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
    expect((await access.listLogins(anna)).logins).toHaveLength(1);
    expect((await eventKinds(store, anna.accountId)).filter((kind) => kind === 'account.loginRevoked')).toHaveLength(1);
    await expectRefused(access.revokeLogin(anna, { id }, null), 'not_found', /login\/list/);
    await callerOf(fixture, await tokenOf(fixture));
    const admins = await store.read
      .selectFrom('session')
      .select('id')
      .where('accountId', '!=', anna.accountId)
      .execute();
    for (const { id: foreign } of admins)
      await expectRefused(access.revokeLogin(anna, { id: foreign }, null), 'not_found', /login\/list/);
  });
});

const NEW = { username: 'nora', password: 'seven green bottles' };

onBothEngines('open registration', (open) => {
  test('makes accounts only when open, without a balance unless one is configured', async () => {
    const closed = (await openFixture(open)).access.administration;
    expect(closed.registers()).toBe(false);
    await expectRefused(closed.register(NEW, HOME), 'forbidden', /ask an administrator/);
    for (const credit of [0, 25]) {
      const fixture = await openFixture(open, { registration: { isOpen: true, credit } });
      const { register } = fixture.access.administration;
      expect(await register(NEW, HOME)).toMatchObject({ username: 'nora', group: ['user'] });
      const caller = await callerOf(fixture, await tokenOf(fixture, NEW.username, NEW.password));
      expect(await fixture.access.balance(caller)).toMatchObject({ balance: credit });
      await expectRefused(register(NEW, HOME), 'name_taken', /"nora" is taken/);
      await expectRefused(register({ username: 'olga', password: 'password1' }, HOME), 'field_value', /"password"/);
    }
  });

  test('limits an address, and no other', async () => {
    const fixture = await openFixture(open, { registration: { isOpen: true, credit: 0 } });
    const { register } = fixture.access.administration;
    const tries = (count: number, from: string) =>
      Promise.allSettled(Array.from({ length: count }, (_, at) => register({ ...NEW, username: `n-${at}` }, from)));
    await tries(29, '2001:db8::1');
    await register({ ...NEW, username: 'last' }, '2001:db8::2');
    const { retryAfterS } = await expectRefused(register(NEW, '2001:db8::3'), 'too_many_requests', /30 at once/);
    expect(retryAfterS).toBe(60);
    await register({ ...NEW, username: 'elsewhere' }, HOME);
    fixture.clock.nowMs += MINUTE;
    expect(await register(NEW, '2001:db8::3')).toMatchObject({ username: 'nora' });
    // By the system date, what was counted before would last as long as the step.
    fixture.clock.nowMs -= 24 * 60 * MINUTE;
    expect(await register({ ...NEW, username: 'set-back' }, HOME)).toMatchObject({ username: 'set-back' });
  });
});
