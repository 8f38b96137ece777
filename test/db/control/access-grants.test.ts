/** Gateway grants: handovers are valid once and for a minute, sessions while they are used. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import { MAX_SESSIONS } from '../../../src/control/access/grants.ts';
import { insertGrant, revokeGrantsOfInstance } from '../../../src/store/tables/gateway-grants.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  DAY,
  MINUTE,
  SECOND,
  adminOf,
  annaOf,
  callerOf,
  everythingIn,
  expectRefused,
  openFixture,
  secondProcess,
  accessFixtureOver,
  setDisabled,
  tokenOf,
  watchedStore,
  type AccessFixture,
} from './access-fixture.ts';

const INSTANCE = 'notebook-00000000-0000-4000-8000-000000000001';

async function sessionOf(fixture: AccessFixture, caller: Caller, instanceId = INSTANCE): Promise<string> {
  const redeemed = await fixture.access.grants.redeem(await fixture.access.grants.grant(caller, instanceId));
  if (!redeemed) throw new Error('the handover was not redeemed');
  return redeemed.session;
}

onBothEngines('gateway grants', (open) => {
  test('exchanges a handover once for a session of its account and instance; stores only hashes', async () => {
    const fixture = await openFixture(open);
    const otherServer = await secondProcess(open, fixture);
    const { caller } = await annaOf(fixture);
    const handover = await fixture.access.grants.grant(caller, INSTANCE);
    expect(handover).toMatch(/^[A-Za-z0-9_-]{43}$/);
    const tries = await Promise.all(
      [fixture, otherServer, fixture, otherServer].map((one) => one.access.grants.redeem(handover)),
    );
    const [redeemed, ...more] = tries.filter((one) => one !== null);
    expect(more).toEqual([]);
    expect(redeemed).toEqual({
      session: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      accountId: caller.accountId,
      instanceId: INSTANCE,
      expiresAtMs: fixture.clock.nowMs + DAY,
    });
    const secret = redeemed?.session ?? '';
    for (const one of [fixture, otherServer]) {
      expect(await one.access.grants.session(secret)).toMatchObject({
        accountId: caller.accountId,
        instanceId: INSTANCE,
      });
    }
    const stored = await everythingIn(fixture.store);
    expect(stored).not.toContain(handover);
    expect(stored).not.toContain(secret);
  });

  test("keeps the sessions of an account that were used last, and ends no other account's", async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const first = await sessionOf(fixture, caller);
    const other = await sessionOf(fixture, await adminOf(fixture));
    const { expiresAtMs, ...row } = await fixture.store.read
      .selectFrom('gatewayGrant')
      .selectAll()
      .where('accountId', '=', caller.accountId)
      .executeTakeFirstOrThrow();
    await fixture.store.write(async (tx) => {
      for (let n = 1; n < MAX_SESSIONS; n += 1)
        await insertGrant(tx, { ...row, expiresAtMs: expiresAtMs + n, hash: `hash-${n}`, id: `id-${n}` });
    });
    const last = await sessionOf(fixture, caller);
    const { sessions } = await fixture.access.listSessions(caller);
    expect(sessions).toHaveLength(MAX_SESSIONS);
    fixture.clock.nowMs += 2 * SECOND;
    expect(await fixture.access.grants.session(first)).toBeNull();
    expect(await fixture.access.grants.session(last)).not.toBeNull();
    expect(await fixture.access.grants.session(other)).not.toBeNull();
  });

  test('accepts neither a handover for a session nor a hash for either', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { grants } = fixture.access;
    const handover = await grants.grant(caller, INSTANCE);
    expect(await grants.session(handover)).toBeNull();
    const secret = await sessionOf(fixture, caller);
    expect(await grants.redeem(secret)).toBeNull();
    const rows = await fixture.store.read.selectFrom('gatewayGrant').select('hash').execute();
    for (const text of [
      ...rows.map(({ hash }) => hash),
      '',
      'x',
      "' or 1=1 --",
      `${secret}A`,
      'A'.repeat(43),
      'x'.repeat(70_000),
    ]) {
      expect(await grants.session(text)).toBeNull();
      expect(await grants.redeem(text)).toBeNull();
    }
    expect(await grants.redeem(handover)).not.toBeNull();
  });

  test('expires a handover after a minute', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const [early, late] = [
      await fixture.access.grants.grant(caller, INSTANCE),
      await fixture.access.grants.grant(caller, INSTANCE),
    ];
    fixture.clock.nowMs += MINUTE - 1;
    expect(await fixture.access.grants.redeem(early)).not.toBeNull();
    fixture.clock.nowMs += 1;
    expect(await fixture.access.grants.redeem(late)).toBeNull();
  });

  test('extends a used session beyond its token; ends one unused for a day', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    const used = await sessionOf(fixture, caller);
    const unused = await sessionOf(fixture, caller);
    for (let hour = 0; hour < 24 * 4; hour += 12) {
      fixture.clock.nowMs += DAY / 2;
      expect(await fixture.access.grants.session(used)).toMatchObject({ accountId: caller.accountId });
      await fixture.access.sweep();
    }
    await expectRefused(callerOf(fixture, token), 'not_logged_in');
    expect(await fixture.access.grants.session(unused)).toBeNull();
    fixture.clock.nowMs += DAY;
    expect(await fixture.access.grants.session(used)).toBeNull();
    await fixture.access.sweep();
    expect(await fixture.store.read.selectFrom('gatewayGrant').selectAll().execute()).toEqual([]);
    await fixture.access.sweep();
    expect(await fixture.store.read.selectFrom('session').select('id').execute()).toEqual([]);
  });

  test('revalidates a used session once a second and extends it once a minute', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const secret = await sessionOf(fixture, caller);
    const expiry = async () =>
      (
        await fixture.store.read
          .selectFrom('gatewayGrant')
          .select('expiresAtMs')
          .where('kind', '=', 'session')
          .executeTakeFirstOrThrow()
      ).expiresAtMs;
    const { store, asked } = watchedStore(fixture.store);
    const watched = accessFixtureOver(store, fixture.clock);
    const start = fixture.clock.nowMs;
    const moves = new Set<number>();
    for (let tick = 0; tick < 150; tick++) {
      for (let i = 0; i < 20; i++)
        expect(await watched.access.grants.session(secret)).toMatchObject({ accountId: caller.accountId });
      moves.add(await expiry());
      fixture.clock.nowMs += SECOND;
    }
    expect(asked).toHaveLength(150);
    expect([...moves]).toEqual([start, start + MINUTE, start + 2 * MINUTE].map((ms) => ms + DAY));
  });

  test("ends a session with its own login's logout only", async () => {
    const fixture = await openFixture(open);
    const otherServer = await secondProcess(open, fixture);
    const { caller } = await annaOf(fixture);
    const second = await callerOf(fixture, await tokenOf(fixture, 'anna', "anna's password"));
    const [mine, other] = [await sessionOf(fixture, caller), await sessionOf(fixture, second)];
    const handover = await fixture.access.grants.grant(caller, INSTANCE);
    for (const one of [fixture, otherServer])
      for (const secret of [mine, other]) await one.access.grants.session(secret);
    await fixture.access.logout(caller);
    expect(await fixture.access.grants.session(mine)).toBeNull();
    expect(await fixture.access.grants.redeem(handover)).toBeNull();
    fixture.clock.nowMs += SECOND;
    expect(await otherServer.access.grants.session(mine)).toBeNull();
    for (const one of [fixture, otherServer]) expect(await one.access.grants.session(other)).not.toBeNull();
    // A request in progress may still have the logged-out caller: it opens nothing more.
    await expectRefused(fixture.access.grants.grant(caller, INSTANCE), 'not_logged_in');
  });

  test('ends every session with a change of password', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    const program = await fixture.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const secrets = [await sessionOf(fixture, caller), await sessionOf(fixture, program)];
    const handover = await fixture.access.grants.grant(program, INSTANCE);
    for (const secret of secrets) expect(await fixture.access.grants.session(secret)).not.toBeNull();
    await fixture.access.changePassword(caller, { oldPassword: "anna's password", newPassword: 'a better password' });
    for (const secret of secrets) expect(await fixture.access.grants.session(secret)).toBeNull();
    expect(await fixture.access.grants.redeem(handover)).toBeNull();
  });

  test('ends a session within a second of its account being disabled', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const secret = await sessionOf(fixture, caller);
    const handover = await fixture.access.grants.grant(caller, INSTANCE);
    await fixture.access.grants.session(secret);
    await setDisabled(fixture.store, 'anna', 1);
    fixture.clock.nowMs += SECOND;
    expect(await fixture.access.grants.session(secret)).toBeNull();
    expect(await fixture.access.grants.redeem(handover)).toBeNull();
    await expectRefused(fixture.access.grants.grant(caller, INSTANCE), 'not_logged_in');
  });

  test('ends a session with its API key; keeps sessions of logins', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const { key } = await fixture.access.createApiKey(caller, { name: 'ci' }, null);
    const { key: other } = await fixture.access.createApiKey(caller, { name: 'other' }, null);
    const program = await fixture.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const otherProgram = await fixture.access.authenticate({ kind: 'apiKey', key: other.fullKey });
    const [byKey, byLogin] = [await sessionOf(fixture, program), await sessionOf(fixture, caller)];
    const byOther = await sessionOf(fixture, otherProgram);
    await fixture.access.grants.session(byKey);
    await fixture.access.deleteApiKey(caller, { id: key.id }, null);
    expect(await fixture.access.grants.session(byKey)).toBeNull();
    for (const secret of [byLogin, byOther]) expect(await fixture.access.grants.session(secret)).not.toBeNull();
    await expectRefused(fixture.access.grants.grant(program, INSTANCE), 'not_logged_in');
  });

  test('ends a session at the expiry of its API key, and tells its limits', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const limits = { expiresAtMs: fixture.clock.nowMs + 500, addresses: ['192.0.2.0/24'] };
    const { key } = await fixture.access.createApiKey(
      caller,
      { name: 'ci', expiresAtUnixMs: limits.expiresAtMs, addresses: limits.addresses },
      null,
    );
    const program = await fixture.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const secret = await sessionOf(fixture, program);
    const handover = await fixture.access.grants.grant(program, INSTANCE);
    expect(await fixture.access.grants.session(secret)).toMatchObject({ accountId: caller.accountId, limits });
    fixture.clock.nowMs = limits.expiresAtMs;
    expect(await fixture.access.grants.session(secret)).toBeNull();
    expect(await fixture.access.grants.redeem(handover)).toBeNull();
  });

  test('ends a session with its instance, within a second of the transaction that terminates', async () => {
    const fixture = await openFixture(open);
    const { caller } = await annaOf(fixture);
    const elsewhere = INSTANCE.replace(/1$/, '2');
    const [here, there] = [await sessionOf(fixture, caller), await sessionOf(fixture, caller, elsewhere)];
    for (const secret of [here, there]) await fixture.access.grants.session(secret);
    await fixture.store.write((tx) => revokeGrantsOfInstance(tx, INSTANCE));
    fixture.clock.nowMs += SECOND;
    expect(await fixture.access.grants.session(here)).toBeNull();
    expect(await fixture.access.grants.session(there)).not.toBeNull();
  });

  test('leaves no session when a revocation races a redeemed handover', async () => {
    const fixture = await openFixture(open);
    const otherServer = await secondProcess(open, fixture);
    const { caller } = await annaOf(fixture);
    for (let round = 0; round < 10; round++) {
      const login = await callerOf(fixture, await tokenOf(fixture, 'anna', "anna's password"));
      const handovers = await Promise.all([1, 2, 3].map(() => fixture.access.grants.grant(login, INSTANCE)));
      const redeemed = await Promise.all([
        ...handovers.map((handover) => otherServer.access.grants.redeem(handover)),
        fixture.access.logout(login).then(() => null),
      ]);
      fixture.clock.nowMs += SECOND;
      for (const one of redeemed) if (one) expect(await otherServer.access.grants.session(one.session)).toBeNull();
    }
    expect(
      await fixture.store.read
        .selectFrom('gatewayGrant')
        .selectAll()
        .where('accountId', '=', caller.accountId)
        .execute(),
    ).toEqual([]);
  });
});
