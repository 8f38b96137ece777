/** Money that administrators give and take back, and what the account can spend. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { CreditInput } from '../../../src/control/money/credits.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { eventKinds, expectRefused, keyed } from './access-fixture.ts';

const HOUR_MS = 3_600_000;
const ROUTE = '/admin/account/credit';

const entriesOf = ({ store }: World, { accountId }: Caller) =>
  store.read.selectFrom('entry').selectAll().where('accountId', '=', accountId).orderBy('id').execute();

async function openWorld(open: Open) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(await open(), { clock, start: false });
  const ann = await world.account('ann', 10);
  const { credits, access } = world.running.control;
  const give = (over: Partial<CreditInput> = {}) =>
    credits.give(world.caller, { username: 'ann', amount: 5, kind: 'cash', reason: 'paid', ...over }, null);
  return {
    world,
    clock,
    ann,
    credits,
    give,
    balance: () => access.balance(ann),
    nowMs: () => Date.now() + clock.aheadMs,
  };
}

onBothEngines('credits', { postgres: 'always' }, (open) => {
  test('books cash, vouchers and credits as entries of opposite ledgers, shown in the balance', async () => {
    const { world, clock, ann, give, credits, balance, nowMs } = await openWorld(open);
    const expiresAt = nowMs() + HOUR_MS;
    const regionId = world.drivers.regionId;
    const { entry: cash } = await give({ amount: 5.000001 });
    expect(cash).toMatchObject({ kind: 'deposit', account: 'cash', amount: 5.000001, grantId: null, reason: 'paid' });
    const { entry: voucher } = await give({ kind: 'voucher', amount: 7, expiresAt, scope: { regionId } });
    expect(voucher).toMatchObject({ kind: 'grant', account: 'voucher', amount: 7, grantId: expect.any(String) });
    clock.aheadMs += 1;
    await give({ kind: 'credit', amount: 3, reason: 'sorry' });
    expect(await balance()).toEqual({
      balance: 15.000001,
      availableBalance: 15.000001,
      availableVoucherAmount: 7,
      availableCreditAmount: 3,
    });
    expect((await credits.list(ann, { currentPage: 1, pageSize: 10 })).grants).toEqual([
      expect.objectContaining({ kind: 'credit', amount: 3, left: 3, expiresAtUnixMs: null, reason: 'sorry' }),
      expect.objectContaining({
        grantId: voucher.grantId,
        kind: 'voucher',
        left: 7,
        expiresAtUnixMs: expiresAt,
        scope: { regionId, instanceTypeId: null, meter: null },
      }),
    ]);
    expect(await credits.list(ann, { currentPage: 2, pageSize: 1 })).toMatchObject({
      totalEntries: 2,
      grants: [{ kind: 'voucher' }],
    });
    const moves = (await entriesOf(world, ann)).map(({ fromLedger, toLedger }) => `${fromLedger} ${toLedger}`);
    expect(moves).toEqual(['deposits cash', 'deposits cash', 'grants voucher', 'grants credit']);
    expect(await eventKinds(world.store, ann.accountId)).toEqual([
      'account.created',
      ...Array.from({ length: 3 }, () => 'billing.credited'),
    ]);
    expect(await world.running.control.accounts.get(ann.accountId)).toMatchObject({
      account: { balance: 15.000001, vouchers: 7, credits: 3, overdraft: 0 },
    });
    const others = await credits.list(world.caller, { currentPage: 1, pageSize: 10 });
    expect(others.grants).toEqual([]);
  });

  test('gives once for a key, also when the account changed between', async () => {
    const { world, credits, balance } = await openWorld(open);
    const body = { username: 'ann', amount: 5, kind: 'cash', reason: 'paid' } as const;
    const first = await credits.give(world.caller, body, keyed('one', ROUTE));
    expect(await credits.give(world.caller, body, keyed('one', ROUTE))).toEqual(first);
    expect((await balance()).balance).toBe(15);
  });

  test('hides what has expired from the balance at once', async () => {
    const { clock, ann, credits, give, balance, nowMs } = await openWorld(open);
    for (const kind of ['voucher', 'credit'] as const) await give({ kind, expiresAt: nowMs() + HOUR_MS });
    expect(await balance()).toMatchObject({ availableVoucherAmount: 5, availableCreditAmount: 5 });
    clock.aheadMs += HOUR_MS;
    expect(await balance()).toMatchObject({ availableVoucherAmount: 0, availableCreditAmount: 0 });
    const { grants } = await credits.list(ann, { currentPage: 1, pageSize: 10 });
    expect(grants.map(({ left }) => left)).toEqual([0, 0]);
  });

  test('a month has a statement also when more moved in it than an account can hold', async () => {
    const { world, ann, credits, give } = await openWorld(open);
    const ids: string[] = [];
    for (let count = 0; count < 8; count += 1) ids.push((await give({ amount: 1e9 })).entry.entryId);
    for (const entryId of ids) await credits.reverse(world.caller, { entryId, reason: 'again' }, null);
    for (let count = 0; count < 8; count += 1) await give({ amount: 1e9 });
    const month = new Date().toISOString().slice(0, 7);
    const { statements } = world.running.control;
    const found = await statements.page(ann, { month, timeZone: 'UTC' }, { currentPage: 1, pageSize: 1 });
    expect(found.balances[0]).toEqual({ ledger: 'cash', openingMicros: 0, closingMicros: 8_000_000_010_000_000 });
    expect(found.movements).toContainEqual({ kind: 'deposit', ledger: 'cash', amountMicros: 16_000_000_010_000_000 });
  });

  test('takes a deposit back once and whole, and refuses what is spent of it', async () => {
    const { world, ann, credits, give, balance } = await openWorld(open);
    const { entry } = await give();
    const reverse = (entryId: string) => credits.reverse(world.caller, { entryId, reason: 'wrong account' }, null);
    await world.store.write((tx) =>
      tx.updateTable('account').set({ balanceMicros: 3_000_000 }).where('id', '=', ann.accountId).execute(),
    );
    await expectRefused(reverse(entry.entryId), 'not_now', /\$2 of it is spent.*balance is \$3 and may fall to 0/);
    const { account } = await credits.setOverdraft(world.caller, { username: 'ann', overdraft: 2 }, null);
    expect(account.overdraft).toBe(2);
    expect(await balance()).toMatchObject({ balance: 3, availableBalance: 5 });
    expect((await reverse(entry.entryId)).entry).toMatchObject({ amount: -5, reversesId: entry.entryId });
    expect(await balance()).toMatchObject({ balance: -2, availableBalance: 0 });
    await expectRefused(reverse(entry.entryId), 'not_now', /taken back by entry \d+ already/);
    const kinds = await eventKinds(world.store, ann.accountId);
    expect(kinds.slice(-2)).toEqual(['billing.overdraftSet', 'billing.creditReversed']);
  });

  test('takes back what is left of a voucher, and nothing twice', async () => {
    const { world, credits, give, balance } = await openWorld(open);
    const { entry } = await give({ kind: 'voucher' });
    await world.store.write(async (tx) => {
      await tx.updateTable('creditGrant').set({ leftMicros: 2_000_000 }).execute();
      await tx.updateTable('account').set({ voucherMicros: 2_000_000 }).where('username', '=', 'ann').execute();
    });
    const reverse = (entryId: string) => credits.reverse(world.caller, { entryId, reason: 'withdrawn' }, null);
    const reversal = (await reverse(entry.entryId)).entry;
    expect(reversal).toMatchObject({ account: 'voucher', amount: -2, grantId: entry.grantId });
    expect(await balance()).toMatchObject({ balance: 10, availableVoucherAmount: 0 });
    await expectRefused(reverse(entry.entryId), 'not_now', /already/);
    await expectRefused(reverse(reversal.entryId), 'field_value', /kind reversal: only deposits/);
    for (const unknown of ['999999', '0', 'x', '1e3']) await expectRefused(reverse(unknown), 'not_found', /not found/);
  });

  test('a refund to a voucher that was taken back cannot be spent', async () => {
    const { world, ann, credits, give, balance } = await openWorld(open);
    const { instances } = world.running.control;
    const { entry } = await give({ kind: 'voucher', amount: 50 });
    const billing = { chargeMode: 'perWeek', duration: 2 } as const;
    const launched = await instances.launch(ann, world.launchInput({ billing }), null);
    await credits.reverse(world.caller, { entryId: entry.entryId, reason: 'withdrawn' }, null);
    await instances.terminate(ann, { instanceId: launched.instanceId }, null);
    const refunds = (await entriesOf(world, ann)).filter(({ kind }) => kind === 'refund');
    expect(refunds).toEqual([expect.objectContaining({ toLedger: 'voucher' })]);
    expect(await balance()).toMatchObject({ balance: 10, availableVoucherAmount: 0 });
  });

  test('never takes a deposit back twice when two requests come at once', async () => {
    const { world, credits, give, balance } = await openWorld(open);
    const { entry } = await give();
    const both = await Promise.allSettled(
      ['a', 'b'].map((reason) => credits.reverse(world.caller, { entryId: entry.entryId, reason }, null)),
    );
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect((await balance()).balance).toBe(10);
  });

  test('refuses unknown accounts, regions and types, past expiries, wrong scopes, more than can be held, and accounts that go', async () => {
    const { world, ann, give, nowMs } = await openWorld(open);
    const [type] = world.types;
    const voucher = { kind: 'voucher', amount: 1 } as const;
    await expectRefused(give({ username: 'nobody' }), 'not_found', /"nobody" not found/);
    await expectRefused(give({ ...voucher, expiresAt: nowMs() - 1 }), 'field_value', /"expiresAt".*past/);
    await expectRefused(give({ expiresAt: nowMs() + HOUR_MS }), 'field_value', /"expiresAt".*only vouchers and/);
    await expectRefused(give({ kind: 'credit', scope: {} }), 'field_value', /"scope".*only vouchers/);
    await expectRefused(give({ ...voucher, scope: { regionId: 'x' } }), 'not_found', /region x/);
    await expectRefused(give({ ...voucher, scope: { instanceTypeId: 'x' } }), 'not_found', /type x/);
    const scope = { instanceTypeId: type?.id, meter: 'volume' } as const;
    await expectRefused(give({ ...voucher, scope }), 'field_value', /"scope.meter".*leave/);
    for (let billions = 1; billions < 9; billions += 1) await give({ amount: 1e9 });
    await expectRefused(give({ amount: 1e9 }), 'field_value', /at most \$999999990 can be added/);
    await expectRefused(give({ kind: 'credit', amount: 1e9 }), 'field_value', /at most \$999999990/);
    await give({ kind: 'credit', amount: 999_999_000 });
    await expectRefused(give({ amount: 991 }), 'field_value', /at most \$990 can be added/);
    await give({ kind: 'voucher', amount: 980 });
    await expectRefused(give({ amount: 11 }), 'field_value', /at most \$10 can be added/);
    await give({ amount: 10 });
    await world.running.control.accounts.delete(world.caller, { accountId: ann.accountId, reason: '' }, null);
    await expectRefused(give(), 'not_now', /is being deleted/);
  });

  test('are given by administrators alone', async () => {
    const { ann, credits } = await openWorld(open);
    const wrong = credits.give(ann, { username: 'ann', amount: 1, kind: 'cash', reason: 'mine' }, null);
    await expectRefused(wrong, 'forbidden');
  });
});
