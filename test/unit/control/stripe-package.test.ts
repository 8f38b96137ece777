/** Events with the types and the signatures of Stripe's own package. */
import Stripe from 'stripe';
import { expect, test } from 'vitest';
import { makeReadStripe } from '../../../src/control/money/stripe.ts';

const NOW = 1_795_478_400_000;
const SECRET = 'whsec_5f2c8e1b7a9d4063b1e2f3a4c5d6e7f8';
const stripe = new Stripe('sk_test_nobody');

/** Signs as Stripe does, and lets the package itself verify. */
function read(type: Stripe.Event['type'], object: object): ReturnType<ReturnType<typeof makeReadStripe>> {
  const payload = JSON.stringify({
    id: 'evt_1',
    object: 'event',
    created: NOW / 1_000,
    livemode: true,
    type,
    data: { object },
  });
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET, timestamp: NOW / 1_000 });
  const event = stripe.webhooks.constructEvent(payload, header, SECRET, Number.MAX_SAFE_INTEGER);
  expect(event.type).toBe(type);
  return makeReadStripe(SECRET)(Buffer.from(payload), header, NOW);
}

type Session = Pick<
  Stripe.Checkout.Session,
  | 'id'
  | 'mode'
  | 'client_reference_id'
  | 'payment_status'
  | 'amount_subtotal'
  | 'amount_total'
  | 'currency'
  | 'payment_intent'
> & { total_details: Pick<Stripe.Checkout.Session.TotalDetails, 'amount_discount' | 'amount_shipping' | 'amount_tax'> };

const session: Session = {
  id: 'cs_live_1',
  mode: 'payment',
  client_reference_id: 'ann',
  payment_status: 'paid',
  amount_subtotal: 1_000,
  amount_total: 1_190,
  total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 190 },
  currency: 'usd',
  payment_intent: 'pi_1',
};
const refund: Pick<Stripe.Refund, 'id' | 'amount' | 'status' | 'payment_intent' | 'charge'> = {
  id: 're_1',
  amount: 500,
  status: 'failed',
  payment_intent: 'pi_1',
  charge: 'ch_1',
};
const dispute: Pick<Stripe.Dispute, 'id' | 'amount' | 'status' | 'reason' | 'payment_intent' | 'charge'> = {
  id: 'du_1',
  amount: 1_190,
  status: 'needs_response',
  reason: 'fraudulent',
  payment_intent: 'pi_1',
  charge: 'ch_1',
};
const charge: Pick<Stripe.Charge, 'id' | 'amount_refunded' | 'payment_intent'> = {
  id: 'ch_1',
  amount_refunded: 500,
  payment_intent: 'pi_1',
};

test('reads the events that move money, as the package types and signs them', () => {
  const of = { provider: 'stripe', intentId: 'pi_1' };
  const paid = { kind: 'paid', ...of, amountMicros: 10_000_000, taxMicros: 1_900_000, isSubscription: false };
  for (const type of ['checkout.session.completed', 'checkout.session.async_payment_succeeded'] as const)
    expect(read(type, session)).toMatchObject(paid);
  expect(read('checkout.session.completed', { ...session, mode: 'subscription' })).toMatchObject({
    isSubscription: true,
  });
  expect(read('charge.refunded', charge)).toMatchObject({ kind: 'refunded', ...of, totalMicros: 5_000_000, atMs: NOW });
  for (const type of ['refund.created', 'refund.updated', 'refund.failed', 'charge.refund.updated'] as const)
    expect(read(type, refund)).toMatchObject({
      of: 'refund',
      ...of,
      id: 're_1',
      amountMicros: 5_000_000,
      endedAtMs: NOW,
    });
  expect(read('charge.dispute.funds_withdrawn', dispute)).toMatchObject({ of: 'dispute', ...of, endedAtMs: null });
  expect(read('charge.dispute.funds_reinstated', dispute)).toMatchObject({ of: 'dispute', ...of, endedAtMs: NOW });
  for (const type of ['charge.dispute.created', 'payment_intent.succeeded', 'invoice.paid'] as const)
    expect(read(type, dispute)).toBeNull();
});

test('reads an object that is sent whole by its id', () => {
  const whole: Pick<Stripe.PaymentIntent, 'id' | 'object'> = { id: 'pi_1', object: 'payment_intent' };
  expect(read('checkout.session.completed', { ...session, payment_intent: whole })).toMatchObject({ intentId: 'pi_1' });
  expect(read('refund.created', { ...refund, payment_intent: whole })).toMatchObject({ intentId: 'pi_1' });
});
