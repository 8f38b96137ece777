/** Signs events, sends them, and says what came of it. */
import type { EventRow } from '../../../store/tables/events.ts';
import type { BacklogRow } from '../../../store/tables/webhook-backlog.ts';
import type { WebhookDeliveryRow, WebhookRow } from '../../../store/tables/webhooks.ts';
import type { SendWebhook, WebhookResult } from './send-webhook.ts';
import { messageId, signedHeaders } from './sign-webhook.ts';
import type { TaskDeps, Seal } from '../../kernel/ports.ts';

export interface WebhookMessage {
  id: string;
  type: string;
  atMs: number;
  /** JSON. */
  dataText: string;
}

export interface Attempt {
  webhook: WebhookRow;
  event: EventRow;
  row: Omit<WebhookDeliveryRow, 'attempts'>;
  /** Wait that the receiver asked for. */
  retryAfterMs?: number | undefined;
  /** Null for an event at the cursor. */
  backlog: Pick<BacklogRow, 'refusals' | 'setAsideAtMs'> | null;
}

export interface AttemptDeps extends Pick<TaskDeps, 'stopping'> {
  seal: Seal;
  sendWebhook: SendWebhook;
  time: Pick<TaskDeps['time'], 'now'>;
}

export const webhookSealContext = (id: string): string => `webhook ${id}`;

export function makeAttempts({ seal, sendWebhook, time, stopping }: AttemptDeps) {
  const send = async (webhook: WebhookRow, { id, type, atMs, dataText }: WebhookMessage): Promise<WebhookResult> => {
    const secret = seal.open(webhook.secret, webhookSealContext(webhook.id));
    if (secret === null) {
      const answer = 'the secret was sealed under a key that is lost: delete the webhook and create another';
      return { delivered: false, status: 0, answer, tookMs: 0 };
    }
    const head = JSON.stringify({ type, timestamp: new Date(atMs).toISOString() });
    const body = `${head.slice(0, -1)},"data":${dataText}}`;
    const headers = signedHeaders(secret, { id, atMs: time.now(), body });
    return sendWebhook({ url: webhook.url, headers, body }, stopping);
  };

  const attempt = async (
    webhook: WebhookRow,
    event: EventRow,
    backlog: Attempt['backlog'] = null,
  ): Promise<Attempt> => {
    const { accountId, seq, kind, subjectId, atMs } = event;
    const id = messageId(webhook.id, accountId, seq);
    const members = JSON.stringify({ accountId, seq, kind, subjectId, atUnixMs: atMs });
    const dataText = `${members.slice(0, -1)},"data":${event.data}}`;
    const { delivered, retryAfterMs, ...result } = await send(webhook, { id, type: kind, atMs, dataText });
    const of = { id, webhookId: webhook.id, accountId, seq, kind, atMs: time.now() };
    return { webhook, event, row: { ...of, ...result, delivered: delivered ? 1 : 0 }, retryAfterMs, backlog };
  };

  return { send, attempt };
}
