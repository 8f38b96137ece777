/** Gateway grants: handovers are valid once and for a minute, sessions while they are used. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import { revokeGrantsOfInstance } from '../../../src/store/tables/gateway-grants.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  DAY,
  MINUTE,
  SECOND,
  annaOf,
  callerOf,
  everythingIn,
  expectRefused,
  openRoom,
  secondProcess,
  roomOver,
  setDisabled,
  tokenOf,
  watchedStore,
  type Room,
} from './access-fixture.ts';

const INSTANCE = 'notebook-00000000-0000-4000-8000-000000000001';

async function sessionOf(room: Room, caller: Caller, instanceId = INSTANCE): Promise<string> {
  const redeemed = await room.access.grants.redeem(await room.access.grants.grant(caller, instanceId));
  if (!redeemed) throw new Error('the handover was not redeemed');
  return redeemed.session;
}

onBothEngines('gateway grants', (open) => {
  test('exchanges a handover once for a session of its account and instance; stores only hashes', async () => {
    const room = await openRoom(open);
    const otherServer = await secondProcess(open, room);
    const { caller } = await annaOf(room);
    const handover = await room.access.grants.grant(caller, INSTANCE);
    expect(handover).toMatch(/^[A-Za-z0-9_-]{43}$/);
    const tries = await Promise.all(
      [room, otherServer, room, otherServer].map((one) => one.access.grants.redeem(handover)),
    );
    const [redeemed, ...more] = tries.filter((one) => one !== null);
    expect(more).toEqual([]);
    expect(redeemed).toEqual({
      session: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      accountId: caller.accountId,
      instanceId: INSTANCE,
      expiresAtMs: room.clock.nowMs + DAY,
    });
    const secret = redeemed?.session ?? '';
    for (const one of [room, otherServer]) {
      expect(await one.access.grants.session(secret)).toMatchObject({
        accountId: caller.accountId,
        instanceId: INSTANCE,
      });
    }
    const kept = await everythingIn(room.store);
    expect(kept).not.toContain(handover);
    expect(kept).not.toContain(secret);
  });

  test('accepts neither a handover for a session nor a hash for either', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const { grants } = room.access;
    const handover = await grants.grant(caller, INSTANCE);
    expect(await grants.session(handover)).toBeNull();
    const secret = await sessionOf(room, caller);
    expect(await grants.redeem(secret)).toBeNull();
    const rows = await room.store.read.selectFrom('gatewayGrant').select('hash').execute();
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
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const [early, late] = [
      await room.access.grants.grant(caller, INSTANCE),
      await room.access.grants.grant(caller, INSTANCE),
    ];
    room.clock.nowMs += MINUTE - 1;
    expect(await room.access.grants.redeem(early)).not.toBeNull();
    room.clock.nowMs += 1;
    expect(await room.access.grants.redeem(late)).toBeNull();
  });

  test('extends a used session beyond its token; ends one unused for a day', async () => {
    const room = await openRoom(open);
    const { token, caller } = await annaOf(room);
    const used = await sessionOf(room, caller);
    const unused = await sessionOf(room, caller);
    for (let hour = 0; hour < 24 * 4; hour += 12) {
      room.clock.nowMs += DAY / 2;
      expect(await room.access.grants.session(used)).toMatchObject({ accountId: caller.accountId });
      await room.access.sweep();
    }
    await expectRefused(callerOf(room, token), 'not_logged_in');
    expect(await room.access.grants.session(unused)).toBeNull();
    room.clock.nowMs += DAY;
    expect(await room.access.grants.session(used)).toBeNull();
    await room.access.sweep();
    expect(await room.store.read.selectFrom('gatewayGrant').selectAll().execute()).toEqual([]);
    await room.access.sweep();
    expect(await room.store.read.selectFrom('session').select('id').execute()).toEqual([]);
  });

  test('revalidates a used session once a second and extends it once a minute', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const secret = await sessionOf(room, caller);
    const expiry = async () =>
      (
        await room.store.read
          .selectFrom('gatewayGrant')
          .select('expiresAtMs')
          .where('kind', '=', 'session')
          .executeTakeFirstOrThrow()
      ).expiresAtMs;
    const { store, asked } = watchedStore(room.store);
    const watched = roomOver(store, room.clock);
    const start = room.clock.nowMs;
    const moves = new Set<number>();
    for (let tick = 0; tick < 150; tick++) {
      for (let i = 0; i < 20; i++)
        expect(await watched.access.grants.session(secret)).toMatchObject({ accountId: caller.accountId });
      moves.add(await expiry());
      room.clock.nowMs += SECOND;
    }
    expect(asked).toHaveLength(150);
    expect([...moves]).toEqual([start, start + MINUTE, start + 2 * MINUTE].map((ms) => ms + DAY));
  });

  test("ends a session with its own login's logout only", async () => {
    const room = await openRoom(open);
    const otherServer = await secondProcess(open, room);
    const { caller } = await annaOf(room);
    const second = await callerOf(room, await tokenOf(room, 'anna', "anna's password"));
    const [mine, other] = [await sessionOf(room, caller), await sessionOf(room, second)];
    const handover = await room.access.grants.grant(caller, INSTANCE);
    for (const one of [room, otherServer]) for (const secret of [mine, other]) await one.access.grants.session(secret);
    await room.access.logout(caller);
    expect(await room.access.grants.session(mine)).toBeNull();
    expect(await room.access.grants.redeem(handover)).toBeNull();
    room.clock.nowMs += SECOND;
    expect(await otherServer.access.grants.session(mine)).toBeNull();
    for (const one of [room, otherServer]) expect(await one.access.grants.session(other)).not.toBeNull();
    // A request in progress may still have the logged-out caller: it opens nothing more.
    await expectRefused(room.access.grants.grant(caller, INSTANCE), 'not_logged_in');
  });

  test('ends every session with a change of password', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    const program = await room.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const secrets = [await sessionOf(room, caller), await sessionOf(room, program)];
    const handover = await room.access.grants.grant(program, INSTANCE);
    for (const secret of secrets) expect(await room.access.grants.session(secret)).not.toBeNull();
    await room.access.changePassword(caller, { oldPassword: "anna's password", newPassword: 'a better password' });
    for (const secret of secrets) expect(await room.access.grants.session(secret)).toBeNull();
    expect(await room.access.grants.redeem(handover)).toBeNull();
  });

  test('ends a session within a second of its account being disabled', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const secret = await sessionOf(room, caller);
    const handover = await room.access.grants.grant(caller, INSTANCE);
    await room.access.grants.session(secret);
    await setDisabled(room.store, 'anna', 1);
    room.clock.nowMs += SECOND;
    expect(await room.access.grants.session(secret)).toBeNull();
    expect(await room.access.grants.redeem(handover)).toBeNull();
    await expectRefused(room.access.grants.grant(caller, INSTANCE), 'not_logged_in');
  });

  test('ends a session with its API key; keeps sessions of logins', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const { key } = await room.access.createApiKey(caller, { name: 'ci' }, null);
    const program = await room.access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const [byKey, byLogin] = [await sessionOf(room, program), await sessionOf(room, caller)];
    await room.access.grants.session(byKey);
    await room.access.deleteApiKey(caller, { id: key.id }, null);
    expect(await room.access.grants.session(byKey)).toBeNull();
    expect(await room.access.grants.session(byLogin)).not.toBeNull();
    await expectRefused(room.access.grants.grant(program, INSTANCE), 'not_logged_in');
  });

  test('ends a session with its instance, within a second of the transaction that terminates', async () => {
    const room = await openRoom(open);
    const { caller } = await annaOf(room);
    const elsewhere = INSTANCE.replace(/1$/, '2');
    const [here, there] = [await sessionOf(room, caller), await sessionOf(room, caller, elsewhere)];
    for (const secret of [here, there]) await room.access.grants.session(secret);
    await room.store.write((tx) => revokeGrantsOfInstance(tx, INSTANCE));
    room.clock.nowMs += SECOND;
    expect(await room.access.grants.session(here)).toBeNull();
    expect(await room.access.grants.session(there)).not.toBeNull();
  });

  test('leaves no session when a revocation races a redeemed handover', async () => {
    const room = await openRoom(open);
    const otherServer = await secondProcess(open, room);
    const { caller } = await annaOf(room);
    for (let round = 0; round < 10; round++) {
      const login = await callerOf(room, await tokenOf(room, 'anna', "anna's password"));
      const handovers = await Promise.all([1, 2, 3].map(() => room.access.grants.grant(login, INSTANCE)));
      const redeemed = await Promise.all([
        ...handovers.map((handover) => otherServer.access.grants.redeem(handover)),
        room.access.logout(login).then(() => null),
      ]);
      room.clock.nowMs += SECOND;
      for (const one of redeemed) if (one) expect(await otherServer.access.grants.session(one.session)).toBeNull();
    }
    expect(
      await room.store.read.selectFrom('gatewayGrant').selectAll().where('accountId', '=', caller.accountId).execute(),
    ).toEqual([]);
  });
});
