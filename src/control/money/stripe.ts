/**
 * Payments of Stripe's Checkout, from its webhook: the header `Stripe-Signature` is `t=SECONDS` and
 * `v1=HEX` parts, each the HMAC-SHA-256 of `SECONDS.BODY`. While a secret is rolled there are
 * several `v1`. `client_reference_id` names the account.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { StripeMode } from '../../domain/money/stripe-mode.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { parseJson } from '../../store/db/columns.ts';
import type { PaymentEvent, ReadPayment } from './payments.ts';

const TOLERANCE_S = 300;
const MICROS_PER_CENT = 10_000;
const PROVIDER = 'stripe';
const MAX_SECONDS = 253_402_300_799;

const envelope = z.object({
  type: z.string(),
  created: z.int().min(0).max(MAX_SECONDS),
  livemode: z.boolean(),
  data: z.object({ object: z.unknown() }),
});
const amount = z.int().min(0).max(900_000_000_000);
/** The id of an object, which Stripe may send whole. */
const reference = z.union([z.string(), z.object({ id: z.string() }).transform(({ id }) => id)]).nullish();
const session = z.object({
  id: z.string().min(1),
  mode: z.string().nullish(),
  client_reference_id: z.string().nullish(),
  payment_intent: reference,
  payment_status: z.string(),
  amount_total: amount.nullish(),
  total_details: z.object({ amount_tax: amount.nullish() }).nullish(),
  currency: z.string().nullish(),
});
const charge = z.object({ payment_intent: reference, amount_refunded: amount });
const claim = z.object({
  id: z.string().min(1),
  payment_intent: reference,
  amount,
  status: z.string().nullish(),
});

/** Null for an event that moves no money. */
export const makeReadStripe =
  (secret: string, mode: StripeMode = 'live'): ReadPayment =>
  (body, header, nowMs) => {
    verify(secret, body, header, nowMs);
    const event = eventOf(body);
    const { object } = event.data;
    if (event.livemode !== (mode === 'live')) throw otherMode(event.livemode, mode);
    const atMs = event.created * 1_000;
    switch (event.type) {
      case 'checkout.session.completed':
      case 'checkout.session.async_payment_succeeded':
        return paymentOf(parsed(session, object));
      case 'charge.refunded':
        return refundedOf(parsed(charge, object), atMs);
      case 'refund.created':
      case 'refund.updated':
      case 'refund.failed':
      case 'charge.refund.updated':
        return refundOf(parsed(claim, object), atMs);
      case 'charge.dispute.funds_withdrawn':
      case 'charge.dispute.funds_reinstated':
        return disputeOf(parsed(claim, object), { isEnd: event.type.endsWith('reinstated'), atMs });
      default:
        return null;
    }
  };

const otherMode = (isLive: boolean, mode: StripeMode): Refusal =>
  refused(
    `the event is of Stripe's ${isLive ? 'live' : 'test'} mode, and this server credits payments of its ${mode} mode: ` +
      `set BERTH_STRIPE_SECRET_FILE to the secret of an endpoint of that mode, or BERTH_STRIPE_MODE to ${isLive ? 'live' : 'test'}`,
  );

function paymentOf(given: z.output<typeof session>): PaymentEvent | null {
  if (given.payment_status !== 'paid') return null;
  const taxCents = given.total_details?.amount_tax ?? 0;
  return {
    kind: 'paid',
    provider: PROVIDER,
    paymentId: given.id,
    intentId: given.payment_intent ?? '',
    accountId: given.client_reference_id ?? '',
    amountMicros: Math.max(0, (given.amount_total ?? 0) - taxCents) * MICROS_PER_CENT,
    taxMicros: taxCents * MICROS_PER_CENT,
    currency: given.currency ?? '',
    isSubscription: given.mode === 'subscription',
  };
}

function refundedOf({ payment_intent: id, amount_refunded: cents }: z.output<typeof charge>, atMs: number) {
  if (!id) return null;
  return {
    kind: 'refunded',
    provider: PROVIDER,
    intentId: id,
    totalMicros: cents * MICROS_PER_CENT,
    atMs,
  } satisfies PaymentEvent;
}

const claimOf = ({ id, amount: cents, payment_intent: intentId }: z.output<typeof claim>) =>
  intentId ? { provider: PROVIDER, id, intentId, amountMicros: cents * MICROS_PER_CENT } : null;

function refundOf(given: z.output<typeof claim>, atMs: number): PaymentEvent | null {
  const isEnd = given.status === 'failed' || given.status === 'canceled';
  const claimed = claimOf(given);
  return claimed && { kind: 'claim', of: 'refund', ...claimed, hasBegun: true, endedAtMs: isEnd ? atMs : null };
}

function disputeOf(
  given: z.output<typeof claim>,
  { isEnd, atMs }: { isEnd: boolean; atMs: number },
): PaymentEvent | null {
  const claimed = claimOf(given);
  const state = { hasBegun: !isEnd, endedAtMs: isEnd ? atMs : null };
  return claimed && { kind: 'claim', of: 'dispute', ...claimed, ...state };
}

function verify(secret: string, body: Buffer, header: string, nowMs: number): void {
  const parts = header.split(',').map((part) => part.trim().split(/=(.*)/s));
  const seconds = parts.find(([name]) => name === 't')?.[1] ?? '';
  const signatures = parts.filter(([name]) => name === 'v1').map(([, value = '']) => Buffer.from(value, 'hex'));
  if (!/^\d{1,12}$/.test(seconds) || signatures.length === 0)
    throw refused('the header "Stripe-Signature" has no time and signature: only Stripe calls this address');
  const expected = createHmac('sha256', secret).update(`${seconds}.`).update(body).digest();
  const isSigned = signatures.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  if (!isSigned)
    throw refused(
      'the signature does not belong to this body: BERTH_STRIPE_SECRET_FILE must hold the signing secret of this webhook endpoint',
    );
  const ageS = Math.abs(nowMs / 1_000 - Number(seconds));
  if (ageS > TOLERANCE_S)
    throw refused(
      `the signature is ${Math.round(ageS)} seconds off this server's clock; at most ${TOLERANCE_S} are accepted`,
    );
}

const refused = (message: string): Refusal => new Refusal('field_value', message);

function eventOf(body: Buffer): z.output<typeof envelope> {
  try {
    return parseJson(envelope, body.toString('utf8'), { table: 'payment', id: PROVIDER, column: 'event' });
  } catch {
    throw refused('the body is not the JSON of an event');
  }
}

function parsed<Shape>(schema: z.ZodType<Shape>, value: unknown): Shape {
  const { data, error } = schema.safeParse(value);
  if (data !== undefined) return data;
  throw refused(`the event has another form than Stripe's: ${error?.issues[0]?.path.join('.') ?? ''} is wrong`);
}
