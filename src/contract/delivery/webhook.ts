/** Webhooks in the form of Standard Webhooks. */
import { z } from 'zod';
import {
  answer,
  empty,
  emptyAnswer,
  flag,
  id,
  integer,
  integerOrNull,
  plainText,
  request,
  text,
  unixMs,
} from '../common.ts';
import { jsonRoute, readRoute } from '../route.ts';

const MAX_URL = 2_048;
const MAX_KINDS = 50;
const KIND = /^[a-zA-Z]+(\.[a-zA-Z]+)?$/;

const url = plainText(MAX_URL).describe('https URL that takes the requests; redirects are not followed');
const kinds = z
  .array(
    z.string().max(64).regex(KIND, { error: 'must be a kind of event, such as instance.launched, or its first part' }),
  )
  .max(MAX_KINDS)
  .describe('Kinds of events, such as `instance.launched`, or their first part, such as `instance`; empty: all');

export const webhookCreateRequest = request('CreateWebhookRequest', {
  url,
  kinds: kinds.default([]),
  allAccounts: z.boolean().default(false).describe('Events of all accounts (administrators)'),
});
export const webhookUpdateRequest = request('UpdateWebhookRequest', {
  id: id.describe('Webhook ID'),
  url: url.optional(),
  kinds: kinds.optional(),
  enabled: z.boolean().describe('False pauses the webhook; true goes on after the last delivered event').optional(),
});
export const webhookIdRequest = request('WebhookIdRequest', { id: id.describe('Webhook ID') });
export const webhookRedeliverRequest = request('RedeliverWebhookRequest', {
  id: id.describe('Webhook ID'),
  deliveryId: id.describe('ID of the delivery'),
});
export const webhookResendRequest = request('ResendWebhookRequest', {
  id: id.describe('Webhook ID'),
  deliveryId: id.describe('ID of the event that is set aside; left out: all of them').optional(),
});

const webhook = answer('Webhook', {
  id: text('Webhook ID'),
  url: text('URL that takes the requests'),
  kinds: z.array(z.string()).describe('Kinds of events; empty: all'),
  allAccounts: flag('Whether it gets the events of all accounts'),
  enabled: flag('False: paused, or switched off after long failure or many refusals'),
  createdAtUnixMs: unixMs('Creation time'),
  failedAttempts: integer('Failed attempts since the last success, refusals included'),
  failingSinceUnixMs: integerOrNull(
    'First failure since the receiver took or refused an event, Unix milliseconds; null without any',
  ),
  lastError: text('Why the last attempt failed; empty after a success'),
});
export const webhookAnswer = answer('WebhookAnswer', { webhook: webhook.describe('The webhook') });
export const webhookCreateAnswer = answer('CreateWebhookAnswer', {
  webhook: webhook.describe('The new webhook'),
  secret: text('Signing secret, `whsec_…`; no later answer repeats it').meta({ format: 'password' }),
});
export const webhookListAnswer = answer('ListWebhooksAnswer', { webhooks: z.array(webhook).describe('Webhooks') });

const result = {
  delivered: flag('Whether the receiver answered with a status of 200 to 299'),
  status: integer('HTTP status of the answer; 0 without an answer'),
  answer: text('Beginning of the answer, or what went wrong'),
  tookMs: integer('Duration of the attempt in milliseconds'),
};
export const webhookTestAnswer = answer('TestWebhookAnswer', result);
const delivery = answer('WebhookDelivery', {
  deliveryId: text('Message ID, the same for each attempt'),
  accountId: text('Account of the event'),
  seq: integer('Number of the event in its account'),
  kind: text('Kind of the event'),
  attempts: integer('Attempts so far'),
  lastAttemptAtUnixMs: unixMs('Last attempt'),
  ...result,
});
const setAside = answer('WebhookSetAside', {
  deliveryId: text('Message ID, the same for each attempt'),
  accountId: text('Account of the event'),
  seq: integer('Number of the event in its account'),
  kind: text('Kind of the event'),
  subjectId: text('Resource of the event'),
  refusals: integer('Refusals so far'),
  setAsideAtUnixMs: unixMs('Time from which the event is set aside'),
  resending: flag('Whether the event is to be sent again now'),
  status: integer('HTTP status of the last refusal'),
  answer: text('Beginning of the answer'),
});
export const webhookRedeliverAnswer = answer('RedeliverWebhookAnswer', {
  delivery: delivery.describe('The delivery after this attempt'),
});
export const webhookDeliveriesAnswer = answer('ListWebhookDeliveriesAnswer', {
  deliveries: z.array(delivery).describe('The last hundred deliveries, newest first'),
  setAside: z.array(setAside).describe('The last hundred events that are set aside, newest first'),
  setAsideCount: integer('Events that are set aside, at most 500: the oldest leave'),
});
export const webhookResendAnswer = answer('ResendWebhookAnswer', {
  count: integer('Events that are sent again, in the order of their numbers'),
});

export const webhookRoutes = {
  createWebhook: jsonRoute('/webhook/create', webhookCreateRequest, webhookCreateAnswer, {
    idempotent: true,
    lasting: { scope: 'account' },
    summary: 'Create a webhook; only this answer has the signing secret',
  }),
  listWebhooks: readRoute('/webhook/list', empty, webhookListAnswer, {
    summary: "List the caller's webhooks",
  }),
  updateWebhook: jsonRoute('/webhook/update', webhookUpdateRequest, webhookAnswer, {
    idempotent: true,
    lasting: { scope: 'account' },
    summary: 'Change, pause or resume a webhook; it goes on after the last delivered event',
  }),
  deleteWebhook: jsonRoute('/webhook/delete', webhookIdRequest, emptyAnswer, {
    idempotent: true,
    summary: 'Delete a webhook',
  }),
  testWebhook: jsonRoute('/webhook/test', webhookIdRequest, webhookTestAnswer, {
    summary: 'Send the event webhook.test now and return what the receiver answered',
  }),
  listWebhookDeliveries: readRoute('/webhook/deliveries', webhookIdRequest, webhookDeliveriesAnswer, {
    summary: 'List the last hundred deliveries of a webhook and the events that are set aside, newest first',
  }),
  redeliverWebhook: jsonRoute('/webhook/redeliver', webhookRedeliverRequest, webhookRedeliverAnswer, {
    summary: 'Send an event again now, with the same message ID',
  }),
  resendWebhook: jsonRoute('/webhook/resend', webhookResendRequest, webhookResendAnswer, {
    idempotent: true,
    summary: 'Send events again that are set aside, one or all, with the same message IDs',
  }),
} as const;
