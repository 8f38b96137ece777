/** The address that Stripe calls: raw bodies, no login, off without a secret. */
import { expect, onTestFinished, test } from 'vitest';
import { checkoutEvent, STRIPE_SECRET, stripeSignature } from '../../fixtures/stripe-events.ts';
import { makeReadStripe } from '../../../src/control/money/stripe.ts';
import { makePayments } from '../../../src/control/money/payments.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { startApi, startEdge } from './harness.ts';

const PATH = '/api/payment/stripe';

test('a signed event credits the account by its raw body; an altered one is refused; without a secret there is no route', async () => {
  const api = await startApi();
  onTestFinished(() => api.stop());
  const { store, control } = api.wired;
  const payments = makePayments({ store, time: realTime, readStripe: makeReadStripe(STRIPE_SECRET) });
  const edge = await startEdge({ ...control, payments });
  onTestFinished(() => edge.stop());
  const { client } = await api.newAccount();
  const { userId } = await client.userInfo();
  const before = (await client.balance()).balance;
  const body = checkoutEvent(userId);
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'stripe-signature': stripeSignature(body, Date.now()),
  };
  const off = await api.send(PATH, { method: 'POST', body, headers });
  expect([off.status, off.json]).toMatchObject([404, { message: expect.stringMatching(/BERTH_STRIPE_SECRET_FILE/) }]);
  const altered = await edge.send(PATH, { method: 'POST', body: body.replace('  ', ' '), headers });
  expect(altered.status).toBe(400);
  expect(
    (await edge.send(PATH, { method: 'POST', headers: { 'stripe-signature': headers['stripe-signature'] } })).status,
  ).toBe(400);
  const got = await edge.send(PATH);
  expect([got.status, got.headers.allow]).toEqual([405, 'POST']);
  expect((await client.balance()).balance).toBe(before);
  for (let times = 0; times < 2; times += 1) {
    const taken = await edge.send(PATH, { method: 'POST', body, headers });
    expect([taken.status, taken.json]).toEqual([200, { received: true }]);
  }
  expect((await client.balance()).balance).toBe(before + 25);
  const { entries } = await client.listEntries({ kind: 'deposit', pager: { currentPage: 1, pageSize: 1 } });
  expect(entries).toMatchObject([{ amount: 25, source: 'cash' }]);
});
