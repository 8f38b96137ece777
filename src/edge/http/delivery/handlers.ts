/** Webhooks. */
import type { Control } from '../../../control/index.ts';
import { presented, type Handlers } from '../handler.ts';

type Webhooks = Control['webhooks'];
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

export const deliveryHandlers = ({ webhooks }: Control) =>
  ({
    createWebhook: presented(webhooks.create, ({ webhook, secret }) => ({ webhook: webhookOf(webhook), secret })),
    listWebhooks: presented(webhooks.list, (listed) => ({ webhooks: listed.map(webhookOf) })),
    updateWebhook: presented(webhooks.update, (webhook) => ({ webhook: webhookOf(webhook) })),
    deleteWebhook: webhooks.delete,
    testWebhook: (caller, { id }) => webhooks.test(caller, id),
    async listWebhookDeliveries(caller, { id }) {
      const { deliveries, setAside, setAsideCount } = await webhooks.deliveries(caller, id);
      return { deliveries: deliveries.map(deliveryOf), setAside: setAside.map(setAsideOf), setAsideCount };
    },
    redeliverWebhook: presented(webhooks.redeliver, (delivery) => ({ delivery: deliveryOf(delivery) })),
    resendWebhook: presented(webhooks.resend, (count) => ({ count })),
  }) satisfies Partial<Handlers['closed']>;
