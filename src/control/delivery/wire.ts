/** Events and webhooks: what an account is notified of. */
import { task, type Kernel, type Task } from '../kernel/ports.ts';
import { makeAccountVersions } from './account-versions.ts';
import { makeEventFeed, type Events } from './event-feed.ts';
import { makeWebhookDelivery } from './webhooks/deliver.ts';
import { makeSendWebhook, type SendWebhook } from './webhooks/send-webhook.ts';
import { makeWebhooks, type Webhooks } from './webhooks/webhooks.ts';

export interface DeliveryOptions {
  /** Whether webhooks may reach private addresses, and use http; default no. */
  anyWebhookAddress?: boolean;
  sendWebhook?: SendWebhook;
}

const WEBHOOK_INTERVAL_MS = 1_000;

export interface DeliveryUseCases {
  webhooks: Webhooks;
  events: Events;
}

export function wireDelivery(deps: Kernel & DeliveryOptions) {
  const { anyWebhookAddress = false, time } = deps;
  const sendWebhook = deps.sendWebhook ?? makeSendWebhook({ time, anyAddress: anyWebhookAddress });
  const accountVersions = makeAccountVersions(deps);
  const webhookDelivery = makeWebhookDelivery({ ...deps, sendWebhook });
  const parts = { accountVersions, webhookDelivery, events: makeEventFeed({ ...deps, accountVersions }) };
  const useCases: DeliveryUseCases = {
    events: parts.events,
    webhooks: makeWebhooks({ ...deps, anyWebhookAddress, webhookDelivery }),
  };
  const tasks: Task[] = [task('deliver webhooks', WEBHOOK_INTERVAL_MS, () => webhookDelivery.tick())];
  return { parts, useCases, tasks };
}

export type DeliveryParts = ReturnType<typeof wireDelivery>['parts'];
