/**
 * Payments of Stripe's Checkout, from its webhook: the header `Stripe-Signature` is `t=SECONDS` and
 * `v1=HEX` parts, each the HMAC-SHA-256 of `SECONDS.BODY`. While a secret is rolled there are
 * several `v1`. `client_reference_id` names the account.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { parseJson } from '../../store/db/columns.ts';
import type { PaymentEvent, ReadPayment } from './payments.ts';

const TOLERANCE_S = 300;
const MICROS_PER_CENT = 10_000;
const PROVIDER = 'stripe';

const envelope = z.object({ type: z.string(), data: z.object({ object: z.unknown() }) });
const amount = z.int().min(0).max(900_000_000_000);
const session = z.object({
  id: z.string().min(1),
  client_reference_id: z.string().nullish(),
  payment_intent: z.string().nullish(),
  payment_status: z.string(),
  amount_total: amount.nullish(),
  currency: z.string().nullish(),
});
const charge = z.object({
  payment_intent: z.string().nullish(),
  amount_refunded: amount,
  currency: z.string(),
});

/** Null for an event that moves no money. */
export const makeReadStripe =
  (secret: string): ReadPayment =>
  (body, header, nowMs) => {
    verify(secret, body, header, nowMs);
    const event = eventOf(body);
    switch (event.type) {
      case 'checkout.session.completed':
      case 'checkout.session.async_payment_succeeded':
        return paymentOf(parsed(session, event.data.object));
      case 'charge.refunded':
        return refundOf(parsed(charge, event.data.object));
      default:
        return null;
    }
  };

function paymentOf(given: z.output<typeof session>): PaymentEvent | null {
  if (given.payment_status !== 'paid') return null;
  return {
    kind: 'paid',
    provider: PROVIDER,
    paymentId: given.id,
    intentId: given.payment_intent ?? '',
    accountId: given.client_reference_id ?? '',
    amountMicros: (given.amount_total ?? 0) * MICROS_PER_CENT,
    currency: given.currency ?? '',
  };
}

function refundOf(given: z.output<typeof charge>): PaymentEvent | null {
  if (given.payment_intent === undefined || given.payment_intent === null) return null;
  return {
    kind: 'refunded',
    provider: PROVIDER,
    intentId: given.payment_intent,
    totalMicros: given.amount_refunded * MICROS_PER_CENT,
  };
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
