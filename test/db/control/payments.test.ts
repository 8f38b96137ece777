/** Payments by Stripe's events: credited once, in any order, never silently lost. */
import type { Updateable } from 'kysely';
import { expect, test } from 'vitest';
import { makePayments } from '../../../src/control/money/payments.ts';
import { makeReadStripe } from '../../../src/control/money/stripe.ts';
import { MAX_HELD_MICROS } from '../../../src/domain/money/purse.ts';
import type { StripeMode } from '../../../src/domain/money/stripe-mode.ts';
import type { AccountTable } from '../../../src/store/db/account-schema.ts';
import { writeEntries } from '../../../src/store/tables/ledger.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import {
  checkoutEvent,
  disputeEvent,
  otherEvent,
  refundEvent,
  refundObjectEvent,
  STRIPE_SECRET,
  stripeSignature,
  testModeEvent,
} from '../../fixtures/stripe-events.ts';
import { accountRow } from '../store/rows.ts';

const NOW = 1_795_478_400_000;

async function payer(store: Store, mode: StripeMode = 'live') {
  for (const [id, roles] of [
    ['ann', '["user"]'],
    ['root', '["admin"]'],
  ] as const)
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id, username: id, email: '', roles }))
        .execute(),
    );
  const payments = makePayments({ store, time: { now: () => NOW }, readStripe: makeReadStripe(STRIPE_SECRET, mode) });
  const take = (body: string, signature = stripeSignature(body, NOW)) =>
    payments.takeStripe(Buffer.from(body), signature);
  const balance = async () =>
    (await store.read.selectFrom('account').select('balanceMicros').where('id', '=', 'ann').executeTakeFirstOrThrow())
      .balanceMicros;
  const entries = () =>
    store.read
      .selectFrom('entry')
      .select(['kind', 'fromLedger', 'toLedger', 'amountMicros', 'reason'])
      .orderBy('id')
      .execute();
  const events = async (accountId: string) =>
    (
      await store.read
        .selectFrom('event')
        .select(['kind', 'data'])
        .where('accountId', '=', accountId)
        .orderBy('seq')
        .execute()
    ).map(({ kind, data }) => [kind, JSON.parse(data)]);
  const set = (columns: Updateable<AccountTable>) =>
    store.write((tx) => tx.updateTable('account').set(columns).where('id', '=', 'ann').execute());
  return { take, balance, entries, events, set };
}

onBothEngines('payments', { postgres: 'always' }, (open) => {
  test('a paid checkout credits the account once, however often and by whichever event', async () => {
    const { take, balance, entries, events } = await payer(await open());
    const completed = checkoutEvent('ann');
    const succeeded = checkoutEvent('ann', {}, 'checkout.session.async_payment_succeeded');
    await Promise.all([
      take(completed),
      take(completed),
      take(succeeded),
      take(checkoutEvent('ann', { id: 'cs_other' })),
    ]);
    await take(succeeded);
    expect(await balance()).toBe(25_000_000);
    expect(await entries()).toEqual([
      {
        kind: 'deposit',
        fromLedger: 'deposits',
        toLedger: 'cash',
        amountMicros: 25_000_000,
        reason: 'stripe payment pi_3RgRPqEEXQJo9EEO1a43uB5g',
      },
    ]);
    expect(await events('ann')).toMatchObject([['billing.paymentReceived', { amount: 25 }]]);
    expect(await events('root')).toEqual([]);
  });

  test('an unpaid checkout waits for its payment, and other events change nothing', async () => {
    const { take, balance } = await payer(await open());
    await take(checkoutEvent('ann', { payment_status: 'unpaid' }));
    await take(otherEvent('payment_intent.succeeded'));
    expect(await balance()).toBe(0);
    await take(checkoutEvent('ann', {}, 'checkout.session.async_payment_succeeded'));
    expect(await balance()).toBe(25_000_000);
  });

  test.each([
    ['another currency', 'ann', { currency: 'eur' }, 'the currency is EUR, and accounts are in USD'],
    ['an unknown account', 'nobody', {}, 'client_reference_id names no account'],
    ['no account', null, {}, 'client_reference_id names no account'],
  ])('money of %s is not credited, and administrators get one event', async (_what, accountId, over, reason) => {
    const { take, balance, events } = await payer(await open());
    await take(checkoutEvent(accountId, over));
    await take(checkoutEvent(accountId, over));
    expect(await balance()).toBe(0);
    expect(await events('root')).toMatchObject([['billing.paymentUnassigned', { amount: 25, reason }]]);
  });

  test('refunds take back their increase once, also before the payment', async () => {
    const { take, balance, entries, events } = await payer(await open());
    await take(refundEvent(500));
    await take(checkoutEvent('ann'));
    expect(await balance()).toBe(20_000_000);
    await Promise.all([take(refundEvent(500)), take(refundEvent(1_200)), take(refundEvent(1_200))]);
    expect(await balance()).toBe(13_000_000);
    expect((await entries()).map(({ kind, amountMicros }) => [kind, amountMicros])).toEqual([
      ['deposit', 25_000_000],
      ['reversal', 5_000_000],
      ['reversal', 7_000_000],
    ]);
    expect((await events('ann')).map(([kind]) => kind)).toEqual([
      'billing.paymentReceived',
      'billing.paymentRefunded',
      'billing.paymentRefunded',
    ]);
    await take(refundEvent(700, { payment_intent: 'pi_unknown' }));
    expect(await balance()).toBe(13_000_000);
  });

  test('a refund goes down to the floor, and administrators get the rest as an event', async () => {
    const { take, balance, events, set } = await payer(await open());
    await take(checkoutEvent('ann'));
    await set({ balanceMicros: 4_000_000 });
    await take(refundEvent(2_500));
    await take(refundEvent(2_500));
    expect(await balance()).toBe(0);
    expect(await events('root')).toMatchObject([['billing.refundUncovered', { amount: 21, accountId: 'ann' }]]);
  });

  test('a refund may use the overdraft, and takes nothing back twice that an administrator took back', async () => {
    const store = await open();
    const { take, balance, events, set } = await payer(store);
    await take(checkoutEvent('ann'));
    await set({ balanceMicros: 0, overdraftMicros: 2_000_000 });
    await take(refundEvent(500));
    expect(await balance()).toBe(-2_000_000);
    await set({ balanceMicros: 30_000_000 });
    const { id: reversesId, ...deposit } = await store.read.selectFrom('entry').selectAll().executeTakeFirstOrThrow();
    const reversal = {
      ...deposit,
      kind: 'reversal',
      fromLedger: 'cash',
      toLedger: 'deposits',
      amountMicros: 20_000_000,
    };
    await store.write((tx) => writeEntries(tx, [{ ...reversal, reversesId, byAccountId: 'root' }]));
    await take(refundEvent(2_500));
    expect(await balance()).toBe(27_000_000);
    expect((await events('root')).map(([, { amount }]) => amount)).toEqual([3, 17]);
  });

  test('a refund to a deleted account, and money beyond the largest balance, notify administrators', async () => {
    const store = await open();
    const { take, balance, events, set } = await payer(store);
    await set({ balanceMicros: Number(MAX_HELD_MICROS) - 24_999_999 });
    await take(checkoutEvent('ann', { id: 'cs_large', payment_intent: 'pi_large' }));
    expect(await balance()).toBe(Number(MAX_HELD_MICROS) - 24_999_999);
    await set({ balanceMicros: 0 });
    await take(checkoutEvent('ann'));
    await store.write((tx) => tx.deleteFrom('account').where('id', '=', 'ann').execute());
    await take(refundEvent(2_500));
    expect((await events('root')).map(([kind, { reason }]) => [kind, reason])).toEqual([
      ['billing.paymentUnassigned', 'the account would hold more than it may'],
      ['billing.refundUncovered', 'the account is deleted'],
    ]);
  });

  test('the tax of a checkout is not credited, and goes back with its refunds', async () => {
    const { take, balance, entries, events } = await payer(await open());
    const taxed = {
      amount_subtotal: 1_000,
      amount_total: 1_190,
      total_details: { amount_discount: 0, amount_tax: 190 },
    };
    await take(checkoutEvent('ann', taxed));
    expect(await balance()).toBe(10_000_000);
    await take(refundEvent(595));
    expect(await balance()).toBe(5_000_000);
    await take(refundEvent(1_190));
    expect(await balance()).toBe(0);
    const moved = (await entries()).map(
      ({ kind, fromLedger, toLedger, amountMicros }) => `${kind} ${fromLedger} ${toLedger} ${amountMicros / 1e6}`,
    );
    expect(moved).toEqual([
      'deposit deposits cash 10',
      'tax deposits tax 1.9',
      'tax tax deposits 0.95',
      'reversal cash deposits 5',
      'tax tax deposits 0.95',
      'reversal cash deposits 5',
    ]);
    expect((await events('ann')).map(([, { amount, tax }]) => [amount, tax])).toEqual([
      [10, 1.9],
      [5, 0.95],
      [5, 0.95],
    ]);
    expect(await events('root')).toEqual([]);
  });

  test('a discount and a tax within the price leave what was paid for the balance', async () => {
    const { take, balance } = await payer(await open());
    const total = {
      amount_subtotal: 2_500,
      amount_total: 2_000,
      total_details: { amount_discount: 500, amount_tax: 320 },
    };
    await take(checkoutEvent('ann', total));
    expect(await balance()).toBe(16_800_000);
  });

  test('a dispute takes its money back and notifies administrators, and a won one gives it back, in any order', async () => {
    const { take, balance, entries, events } = await payer(await open());
    await take(checkoutEvent('ann'));
    await take(disputeEvent('created'));
    expect(await balance()).toBe(25_000_000);
    await Promise.all([take(disputeEvent('funds_withdrawn')), take(disputeEvent('funds_withdrawn'))]);
    expect(await balance()).toBe(0);
    expect(await events('root')).toMatchObject([['billing.paymentDisputed', { amount: 25, accountId: 'ann' }]]);
    await take(disputeEvent('funds_reinstated'));
    await take(disputeEvent('funds_withdrawn'));
    expect(await balance()).toBe(25_000_000);
    expect((await entries()).map(({ kind, amountMicros }) => `${kind} ${amountMicros / 1e6}`)).toEqual([
      'deposit 25',
      'reversal 25',
      'deposit 25',
    ]);
    await take(disputeEvent('funds_reinstated', { id: 'du_2', amount: 700 }));
    await take(disputeEvent('funds_withdrawn', { id: 'du_2', amount: 700 }));
    expect(await balance()).toBe(25_000_000);
    expect((await events('ann')).map(([kind]) => kind)).toEqual([
      'billing.paymentReceived',
      'billing.paymentDisputed',
      'billing.paymentRestored',
    ]);
  });

  test('a refund that fails is given back once, whichever events come and when', async () => {
    const later = 1_795_480_000;
    const created = refundObjectEvent('refund.created', { id: 're_1', amount: 600, status: 'succeeded' });
    const failed = refundObjectEvent('refund.failed', { id: 're_1', amount: 600, status: 'failed' }, later);
    const updated = refundObjectEvent('charge.refund.updated', { id: 're_1', amount: 600, status: 'failed' }, later);
    const second = refundObjectEvent('refund.created', { id: 're_2', amount: 100, status: 'pending' }, later + 10);
    const charge = refundEvent(600);
    const chargeLater = refundEvent(100, {}, later + 10);
    for (const order of [
      [created, charge, failed, updated, second, chargeLater],
      [failed, created, chargeLater, charge, second],
      [charge, updated, chargeLater],
      [second, failed, charge, created],
    ]) {
      const { take, balance } = await payer(await open());
      await take(checkoutEvent('ann'));
      for (const event of [...order, ...order]) await take(event);
      expect(await balance()).toBe(24_000_000);
    }
  });

  test('a refund that fails gives back only what it took', async () => {
    const { take, balance, set } = await payer(await open());
    await take(checkoutEvent('ann'));
    await set({ balanceMicros: 4_000_000 });
    await take(refundObjectEvent('refund.created', { id: 're_1', amount: 2_500, status: 'succeeded' }));
    expect(await balance()).toBe(0);
    await take(refundObjectEvent('refund.failed', { id: 're_1', amount: 2_500, status: 'failed' }, 1_795_480_000));
    expect(await balance()).toBe(4_000_000);
  });

  test('objects that Stripe sends whole are read by their id', async () => {
    const { take, balance } = await payer(await open());
    const payment_intent = { id: 'pi_whole', object: 'payment_intent' };
    await take(checkoutEvent('ann', { payment_intent }));
    await take(refundEvent(500, { payment_intent }));
    await take(disputeEvent('funds_withdrawn', { payment_intent, amount: 300 }));
    expect(await balance()).toBe(17_000_000);
  });

  test('a subscription is not credited, and administrators hear why', async () => {
    const { take, balance, events } = await payer(await open());
    await take(checkoutEvent('ann', { mode: 'subscription', payment_intent: null }));
    expect(await balance()).toBe(0);
    expect(await events('root')).toMatchObject([
      ['billing.paymentUnassigned', { amount: 25, reason: expect.stringContaining('"mode" "payment"') }],
    ]);
  });

  test('events of the other mode are refused with the setting', async () => {
    const live = await payer(await open());
    await expect(live.take(testModeEvent('ann'))).rejects.toThrow(/Stripe's test mode.*or BERTH_STRIPE_MODE to test$/);
    expect(await live.balance()).toBe(0);
    const trial = await payer(await open(), 'test');
    await trial.take(testModeEvent('ann'));
    expect(await trial.balance()).toBe(25_000_000);
    await expect(trial.take(checkoutEvent('ann'))).rejects.toThrow(/or BERTH_STRIPE_MODE to live$/);
  });

  test('payments without an intent are credited each, and their refunds and free checkouts change nothing', async () => {
    const { take, balance, entries, events } = await payer(await open());
    await take(checkoutEvent('ann', { amount_total: 0 }));
    await take(checkoutEvent('ann', { id: 'cs_1', payment_intent: null }));
    await take(checkoutEvent('ann', { id: 'cs_2', payment_intent: null }));
    await take(refundEvent(500, { payment_intent: null }));
    expect(await balance()).toBe(50_000_000);
    expect((await entries()).map(({ reason }) => reason)).toEqual(['stripe payment cs_1', 'stripe payment cs_2']);
    expect(await events('root')).toEqual([]);
  });

  test('forged, replayed and altered messages are refused, and change nothing', async () => {
    const { take, balance } = await payer(await open());
    const body = checkoutEvent('ann');
    const altered = checkoutEvent('ann', { amount_total: 2_500_000 });
    const foreign = stripeSignature(body, NOW, { secret: 'whsec_other' });
    const refused: [string, string, RegExp][] = [
      [body, foreign, /does not belong to this body/],
      [altered, stripeSignature(body, NOW), /does not belong to this body/],
      [body, stripeSignature(body, NOW).replace(/t=\d+/, `t=${NOW / 1_000 + 1}`), /does not belong to this body/],
      [body, stripeSignature(body, NOW - 301_000), /301 seconds off this server's clock/],
      [body, stripeSignature(body, NOW + 301_000), /301 seconds off this server's clock/],
      [body, '', /has no time and signature/],
      [body, `t=${NOW / 1_000}`, /has no time and signature/],
      [body, `t=${NOW / 1_000},v1=`, /does not belong to this body/],
      [body, `t=${NOW / 1_000},v1=zz`, /does not belong to this body/],
      ['{', stripeSignature('{', NOW), /not the JSON of an event/],
      ['{"type":1}', stripeSignature('{"type":1}', NOW), /not the JSON of an event/],
      [
        checkoutEvent('ann', { amount_total: -1 }),
        stripeSignature(checkoutEvent('ann', { amount_total: -1 }), NOW),
        /another form than Stripe's: amount_total is wrong/,
      ],
    ];
    for (const [sent, signature, message] of refused)
      await expect(take(sent, signature)).rejects.toMatchObject({
        code: 'field_value',
        message: expect.stringMatching(message),
      });
    expect(await balance()).toBe(0);
    // While the secret is rolled, one of several signatures is right.
    await take(body, stripeSignature(body, NOW - 300_000, { before: `v1=${'0'.repeat(64)},` }));
    expect(await balance()).toBe(25_000_000);
  });
});
