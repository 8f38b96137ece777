/**
 * # Delivery of webhooks
 *
 * Each webhook reads the numbered events of its accounts behind a cursor, one after another: an
 * event waits until the one before it is delivered, so order stays and nothing is lost in a crash.
 * A crash after an answer repeats the event, under the same message ID. A failed attempt waits with
 * back-off; after `giveUpMs` of failures, or a 410, the webhook is switched off.
 */
import { makeKeyedLimit } from '../../async/limits.ts';
import { ADMIN_ROLE, hasRole } from '../../domain/roles.ts';
import { appendEvent, eventsSince, type EventRow } from '../../store/tables/events.ts';
import { parseRoles } from '../../store/tables/json-schemas.ts';
import {
  accountsPending,
  dueWebhooks,
  enabledWebhook,
  kindsOf,
  saveDelivery,
  saveWebhookCursor,
  updateWebhook,
  type PendingAccount,
  type WebhookDeliveryRow,
  type WebhookRow,
} from '../../store/tables/webhooks.ts';
import type { TaskDeps } from '../base/deps.ts';
import type { Seal } from '../base/seal.ts';
import type { SendWebhook, WebhookResult } from './send-webhook.ts';
import { messageId, signedHeaders } from './sign-webhook.ts';

export interface DeliverDeps extends Pick<TaskDeps, 'store' | 'time' | 'log' | 'stopping'> {
  seal: Seal;
  sendWebhook: SendWebhook;
  /** In [0, 1); jitter. */
  random: () => number;
  /** Failures for so long switch a webhook off; default 3 days. */
  webhookGiveUpMs?: number | undefined;
}

export interface WebhookDelivery {
  /** Starts the deliveries that are due. */
  tick(): Promise<void>;
  /** Sends one message now. */
  send(webhook: WebhookRow, message: WebhookMessage): Promise<WebhookResult>;
  /** Sends a stored event now, and records the attempt. The cursor stays. */
  deliver(webhook: WebhookRow, event: EventRow): Promise<WebhookDeliveryRow>;
  /** Resolves once no delivery is under way. */
  idle(): Promise<void>;
}

export interface WebhookMessage {
  id: string;
  type: string;
  atMs: number;
  /** JSON. */
  dataText: string;
}

const GIVE_UP_MS = 3 * 24 * 3_600_000;
const BACK_OFF_MS = 5_000;
const MAX_BACK_OFF_MS = 3_600_000;
const DUE_AT_ONCE = 500;
const ACCOUNTS_AT_ONCE = 50;
const EVENTS_AT_ONCE = 50;
const TOTAL_AT_ONCE = 128;
const ACCOUNT_AT_ONCE = 2;
/** Ends a turn with the events of one account, so that slow receivers hold back nobody. */
const TURN_MS = 15_000;
const GONE = 410;

export const webhookSealContext = (id: string): string => `webhook ${id}`;

type Attempt = Omit<WebhookDeliveryRow, 'attempts'>;

const served = { attempts: 0, failingSinceMs: null, lastError: '' } as const;

const isWanted = (event: EventRow, kinds: readonly string[]): boolean =>
  kinds.length === 0 || kinds.some((kind) => event.kind === kind || event.kind.startsWith(`${kind}.`));

function afterFailure(
  webhook: WebhookRow,
  row: Attempt,
  { random, webhookGiveUpMs }: { random: () => number; webhookGiveUpMs: number },
) {
  const failingSinceMs = webhook.failingSinceMs ?? row.atMs;
  const attempts = webhook.attempts + 1;
  const waitMs = Math.min(MAX_BACK_OFF_MS, BACK_OFF_MS * 2 ** Math.min(attempts - 1, 20)) * (0.5 + random() / 2);
  const lastError = row.status === 0 ? row.answer : `HTTP ${row.status}: ${row.answer}`;
  return {
    isOver: row.status === GONE || row.atMs - failingSinceMs >= webhookGiveUpMs,
    next: { attempts, failingSinceMs, lastError, nextAttemptAtMs: Math.ceil(row.atMs + waitMs) },
  };
}

export function makeWebhookDelivery(deps: DeliverDeps): WebhookDelivery {
  const { store, time, log, seal, sendWebhook, random, stopping, webhookGiveUpMs = GIVE_UP_MS } = deps;
  const limit = makeKeyedLimit({ total: TOTAL_AT_ONCE, perKey: ACCOUNT_AT_ONCE });
  const active = new Map<string, Promise<void>>();
  /** The next turn of a webhook of all accounts begins behind that account. */
  const lastAccountOf = new Map<string, string>();

  const send: WebhookDelivery['send'] = async (webhook, { id, type, atMs, dataText }) => {
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

  const attempt = async (webhook: WebhookRow, event: EventRow): Promise<Attempt> => {
    const { accountId, seq, kind, subjectId, atMs } = event;
    const id = messageId(webhook.id, accountId, seq);
    const members = JSON.stringify({ accountId, seq, kind, subjectId, atUnixMs: atMs });
    const dataText = `${members.slice(0, -1)},"data":${event.data}}`;
    const { delivered, ...result } = await send(webhook, { id, type: kind, atMs, dataText });
    const of = { id, webhookId: webhook.id, accountId, seq, kind, atMs: time.now() };
    return { ...of, ...result, delivered: delivered ? 1 : 0 };
  };

  const recordFailure = async (webhook: WebhookRow, row: Attempt): Promise<void> => {
    const { id, ownerId } = webhook;
    const { isOver, next } = afterFailure(webhook, row, { random, webhookGiveUpMs });
    await store.write(async (tx) => {
      // The event locks the account before the webhook.
      if (isOver) {
        const data = { host: new URL(webhook.url).host, failingSinceUnixMs: next.failingSinceMs, status: row.status };
        await appendEvent(tx, { accountId: ownerId, atMs: row.atMs, kind: 'webhook.disabled', subjectId: id, data });
      }
      await updateWebhook(tx, id, { ...next, ...(isOver ? { enabled: 0 as const } : {}) });
      await saveDelivery(tx, row);
    });
  };

  const recordSuccess = (webhook: WebhookRow, row: Attempt): Promise<void> =>
    store.write(async (tx) => {
      await updateWebhook(tx, webhook.id, { ...served, nextAttemptAtMs: row.atMs });
      await saveDelivery(tx, row);
      await saveWebhookCursor(tx, webhook.id, row.accountId, row.seq);
    });

  /** Returns the webhook while it may be delivered to, with the state of now. */
  const refreshed = async (id: string): Promise<WebhookRow | null> => {
    const webhook = await enabledWebhook(store.read, id);
    if (webhook === undefined || stopping.aborted) return null;
    const { allAccounts, roles, ownerId } = webhook;
    return allAccounts === 1 && !hasRole(parseRoles(roles, ownerId), ADMIN_ROLE) ? null : webhook;
  };

  /** False: stop for now. */
  const deliverSome = async (id: string, { accountId, after, latest }: PendingAccount): Promise<boolean> => {
    const events = await eventsSince(store.read, accountId, after, EVENTS_AT_ONCE);
    const startedMs = time.elapsed();
    // Expired events are left out.
    let passed = events.length === 0 ? latest : after;
    for (const event of events) {
      const webhook = await refreshed(id);
      if (webhook === null) return false;
      if (isWanted(event, kindsOf(webhook))) {
        const row = await attempt(webhook, event);
        if (stopping.aborted) return false;
        if (row.delivered === 0) {
          await store.write((tx) => saveWebhookCursor(tx, id, accountId, passed));
          await recordFailure(webhook, row);
          return false;
        }
        await recordSuccess(webhook, row);
        if (time.elapsed() - startedMs >= TURN_MS) return false;
      }
      passed = event.seq;
    }
    await store.write((tx) => saveWebhookCursor(tx, id, accountId, passed));
    return true;
  };

  const work = async ({ id }: WebhookRow): Promise<void> => {
    const webhook = await refreshed(id);
    if (webhook === null) return;
    const page = { after: lastAccountOf.get(id) ?? '', limit: ACCOUNTS_AT_ONCE };
    for (const pending of await accountsPending(store.read, webhook, page)) {
      if (webhook.allAccounts === 1) lastAccountOf.set(id, pending.accountId);
      if (!(await deliverSome(id, pending))) return;
    }
  };

  return {
    async tick() {
      for (const webhook of await dueWebhooks(store.read, time.now(), DUE_AT_ONCE)) {
        if (active.has(webhook.id) || stopping.aborted) continue;
        const release = limit.tryAcquire(webhook.ownerId);
        if (release === null) continue;
        const working = work(webhook)
          .catch((error: unknown) => log.warn({ err: error, webhookId: webhook.id }, 'a webhook could not be served'))
          .finally(() => {
            release();
            active.delete(webhook.id);
          });
        active.set(webhook.id, working);
      }
    },
    send,
    deliver: async (webhook, event) => {
      const row = await attempt(webhook, event);
      return store.write((tx) => saveDelivery(tx, row));
    },
    async idle() {
      await Promise.all(active.values());
    },
  };
}
