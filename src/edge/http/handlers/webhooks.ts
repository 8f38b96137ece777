import type { Webhooks } from '../../../control/index.ts';
import { nothing, type ClosedHandlers } from './handler.ts';

type Shown = Awaited<ReturnType<Webhooks['list']>>[number];
type Delivery = Awaited<ReturnType<Webhooks['deliveries']>>[number];

const webhookOf = ({ createdAtMs, attempts, failingSinceMs, ...webhook }: Shown) => ({
  ...webhook,
  createdAtUnixMs: createdAtMs,
  failedAttempts: attempts,
  failingSinceUnixMs: failingSinceMs,
});

const deliveryOf = (delivery: Delivery) => ({
  deliveryId: delivery.id,
  accountId: delivery.accountId,
  seq: delivery.seq,
  kind: delivery.kind,
  attempts: delivery.attempts,
  lastAttemptAtUnixMs: delivery.atMs,
  delivered: delivery.delivered === 1,
  status: delivery.status,
  answer: delivery.answer,
  tookMs: delivery.tookMs,
});

export const webhookHandlers = (webhooks: Webhooks) =>
  ({
    async createWebhook(caller, { body, idempotency }) {
      const { webhook, secret } = await webhooks.create(caller, body, idempotency);
      return { webhook: webhookOf(webhook), secret };
    },
    listWebhooks: async (caller) => ({ webhooks: (await webhooks.list(caller)).map(webhookOf) }),
    updateWebhook: async (caller, { body, idempotency }) => ({
      webhook: webhookOf(await webhooks.update(caller, body, idempotency)),
    }),
    deleteWebhook: (caller, { body, idempotency }) => webhooks.delete(caller, body, idempotency).then(nothing),
    testWebhook: (caller, { body: { id } }) => webhooks.test(caller, id),
    listWebhookDeliveries: async (caller, { body: { id } }) => ({
      deliveries: (await webhooks.deliveries(caller, id)).map(deliveryOf),
    }),
    redeliverWebhook: async (caller, { body }) => ({ delivery: deliveryOf(await webhooks.redeliver(caller, body)) }),
  }) satisfies Partial<ClosedHandlers>;
