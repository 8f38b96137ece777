/** Rows of webhooks: of the caller's account, or of all accounts for administrators. */
import { emptyAnswer } from './account.ts';
import { empty } from './common.ts';
import { jsonRoute, readRoute } from './route.ts';
import * as webhook from './webhook.ts';

export const webhookRoutes = {
  createWebhook: jsonRoute('/webhook/create', webhook.webhookCreateRequest, webhook.webhookCreateAnswer, {
    idempotent: true,
    lasting: { scope: 'account' },
    summary: 'Create a webhook; only this answer has the signing secret',
  }),
  listWebhooks: readRoute('/webhook/list', empty, webhook.webhookListAnswer, {
    summary: "List the caller's webhooks",
  }),
  updateWebhook: jsonRoute('/webhook/update', webhook.webhookUpdateRequest, webhook.webhookAnswer, {
    idempotent: true,
    lasting: { scope: 'account' },
    summary: 'Change, pause or resume a webhook; it goes on after the last delivered event',
  }),
  deleteWebhook: jsonRoute('/webhook/delete', webhook.webhookIdRequest, emptyAnswer, {
    idempotent: true,
    summary: 'Delete a webhook',
  }),
  testWebhook: jsonRoute('/webhook/test', webhook.webhookIdRequest, webhook.webhookTestAnswer, {
    summary: 'Send the event webhook.test now and return what the receiver answered',
  }),
  listWebhookDeliveries: readRoute('/webhook/deliveries', webhook.webhookIdRequest, webhook.webhookDeliveriesAnswer, {
    summary: 'List the last hundred deliveries of a webhook and the events that are set aside, newest first',
  }),
  redeliverWebhook: jsonRoute('/webhook/redeliver', webhook.webhookRedeliverRequest, webhook.webhookRedeliverAnswer, {
    summary: 'Send an event again now, with the same message ID',
  }),
  resendWebhook: jsonRoute('/webhook/resend', webhook.webhookResendRequest, webhook.webhookResendAnswer, {
    idempotent: true,
    summary: 'Send events again that are set aside, one or all, with the same message IDs',
  }),
} as const;
