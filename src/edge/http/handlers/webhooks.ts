import type { Webhooks } from '../../../control/index.ts';
import { nothing, type ClosedHandlers } from './handler.ts';

type Shown = Awaited<ReturnType<Webhooks['list']>>[number];
type Deliveries = Awaited<ReturnType<Webhooks['deliveries']>>;

const webhookOf = ({ createdAtMs, attempts, failingSinceMs, ...webhook }: Shown) => ({
  ...webhook,
  createdAtUnixMs: createdAtMs,
  failedAttempts: attempts,
  failingSinceUnixMs: failingSinceMs,
});

const deliveryOf = (delivery: Deliveries['deliveries'][number]) => ({
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

const setAsideOf = (row: Deliveries['setAside'][number]) => ({
  deliveryId: row.id,
  accountId: row.accountId,
  seq: row.seq,
  kind: row.kind,
  subjectId: row.subjectId,
  refusals: row.refusals,
  setAsideAtUnixMs: row.setAsideAtMs,
  resending: row.dueAtMs !== null,
  status: row.status,
  answer: row.answer,
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
    async listWebhookDeliveries(caller, { body: { id } }) {
      const { deliveries, setAside, setAsideCount } = await webhooks.deliveries(caller, id);
      return { deliveries: deliveries.map(deliveryOf), setAside: setAside.map(setAsideOf), setAsideCount };
    },
    redeliverWebhook: async (caller, { body }) => ({ delivery: deliveryOf(await webhooks.redeliver(caller, body)) }),
    resendWebhook: async (caller, { body, idempotency }) => ({
      count: await webhooks.resend(caller, body, idempotency),
    }),
  }) satisfies Partial<ClosedHandlers>;
