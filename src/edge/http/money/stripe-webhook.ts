/** `POST /api/payment/stripe`: Stripe's webhook, authorized by its signature over the raw body. */
import type { FastifyInstance } from 'fastify';
import { BASE_PATH } from '../../../contract/routes.ts';
import type { Control } from '../../../control/index.ts';
import { auditNoteOf } from '../audit-hook.ts';
import { JSON_TYPE } from '../refusal-reply.ts';
import { setCommonHeaders } from '../reply-headers.ts';

/** Events of Stripe have a few KiB. Before the signature is checked, the sender is a stranger. */
const MAX_EVENT_BYTES = 256 * 1024;

export const STRIPE_PATH = `${BASE_PATH}/payment/stripe`;

export function mountStripeWebhook(app: FastifyInstance, { control }: { control: Pick<Control, 'payments'> }): void {
  app.post(
    STRIPE_PATH,
    { bodyLimit: MAX_EVENT_BYTES, config: { audited: 'stripePayment' } },
    async (request, reply) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      const accountId = await control.payments.takeStripe(body, String(request.headers['stripe-signature'] ?? ''));
      const note = auditNoteOf(request);
      note.credential = 'signature';
      note.subjects.push(accountId);
      return setCommonHeaders(request, reply, JSON_TYPE).send('{"received":true}');
    },
  );
}
