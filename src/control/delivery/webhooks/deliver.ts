/**
 * # Delivery of webhooks
 *
 * Each webhook reads the numbered events of its accounts behind a cursor, one after another. An
 * event that the receiver refuses leaves the cursor for the backlog, and later events of the same
 * subject follow it there, so that order stays per subject and all others go on. Cursor and backlog
 * move in the transaction that records an attempt: a crash loses nothing, and one after an answer
 * repeats the event, under the same message ID.
 */
import { makeKeyedLimit } from '../../../async/limits.ts';
import { ADMIN_ROLE, hasRole } from '../../../domain/access/roles.ts';
import { eventsSince, type EventRow } from '../../../store/tables/events.ts';
import { parseRoles } from '../../../store/tables/json-schemas.ts';
import {
  deleteFromBacklog,
  dueInBacklog,
  insertWaiting,
  waitingInBacklog,
} from '../../../store/tables/webhook-backlog.ts';
import {
  accountsPending,
  dueWebhooks,
  enabledWebhook,
  kindsOf,
  saveDelivery,
  saveWebhookCursor,
  type PendingAccount,
  type WebhookDeliveryRow,
  type WebhookRow,
} from '../../../store/tables/webhooks.ts';
import type { Db } from '../../../store/store.ts';
import { makeAttempts, type AttemptDeps, type WebhookMessage } from './attempt.ts';
import { makeRecordAttempt, MAX_WAITING, type RecordDeps } from './record-attempt.ts';
import type { WebhookResult } from './send-webhook.ts';
import { messageId } from './sign-webhook.ts';
import type { TaskDeps } from '../../kernel/ports.ts';

export interface DeliverDeps
  extends
    Pick<TaskDeps, 'store' | 'time' | 'log' | 'stopping'>,
    Pick<AttemptDeps, 'seal' | 'sendWebhook'>,
    Pick<RecordDeps, 'random'> {}

export interface WebhookDelivery {
  /** Starts the deliveries that are due. */
  tick(): Promise<void>;
  /** Sends one message now. */
  send(webhook: WebhookRow, message: WebhookMessage): Promise<WebhookResult>;
  /** Sends a stored event now, and records the attempt unless `check` throws. The cursor stays. */
  deliver(webhook: WebhookRow, event: EventRow, check: (tx: Db) => Promise<unknown>): Promise<WebhookDeliveryRow>;
  /** Resolves once no delivery is under way. */
  idle(): Promise<void>;
}

const DUE_AT_ONCE = 500;
const ACCOUNTS_AT_ONCE = 50;
const EVENTS_AT_ONCE = 50;
const BACKLOG_AT_ONCE = 50;
const TOTAL_AT_ONCE = 128;
const ACCOUNT_AT_ONCE = 2;
/** Ends a turn with the backlog or the events of one account: slow receivers hold back nobody. */
const TURN_MS = 15_000;

const isWanted = (event: EventRow, kinds: readonly string[]): boolean =>
  kinds.length === 0 || kinds.some((kind) => event.kind === kind || event.kind.startsWith(`${kind}.`));

/** Events that wait, by account and subject, with their next attempt. */
interface Waiting {
  dueAtMs: Map<string, number>;
  count: number;
}

const waitingKey = ({ accountId, subjectId }: Pick<EventRow, 'accountId' | 'subjectId'>): string =>
  `${accountId} ${subjectId}`;

async function readWaiting(db: Db, webhookId: string): Promise<Waiting> {
  const rows = await waitingInBacklog(db, webhookId);
  return { count: rows.length, dueAtMs: new Map(rows.map((row) => [waitingKey(row), row.dueAtMs ?? 0])) };
}

export function makeWebhookDelivery(deps: DeliverDeps): WebhookDelivery {
  const { store, time, log, seal, sendWebhook, random, stopping } = deps;
  const limit = makeKeyedLimit({ total: TOTAL_AT_ONCE, perKey: ACCOUNT_AT_ONCE });
  const { send, attempt } = makeAttempts({ seal, sendWebhook, time, stopping });
  const record = makeRecordAttempt({ store, random });
  const active = new Map<string, Promise<void>>();
  /** The next turn of a webhook of all accounts begins behind that account. */
  const lastAccountOf = new Map<string, string>();

  /** Returns the webhook while it may be delivered to, with the state of now. */
  const refreshed = async (id: string): Promise<WebhookRow | null> => {
    const webhook = await enabledWebhook(store.read, id);
    if (webhook === undefined || stopping.aborted) return null;
    const { allAccounts, roles, ownerId } = webhook;
    return allAccounts === 1 && !hasRole(parseRoles(roles, ownerId), ADMIN_ROLE) ? null : webhook;
  };

  /** False: stop for now. */
  const deliverBacklog = async (id: string): Promise<boolean> => {
    const startedMs = time.elapsed();
    for (let n = 0; n < BACKLOG_AT_ONCE && time.elapsed() - startedMs < TURN_MS; n += 1) {
      const webhook = await refreshed(id);
      if (webhook === null) return false;
      const due = await dueInBacklog(store.read, id, time.now());
      if (due === undefined) return true;
      const attempted = await attempt(webhook, due, due);
      if (stopping.aborted || !(await record(attempted)).goesOn) return false;
    }
    return true;
  };

  /** Puts an event behind another of its subject. */
  const wait = async (webhookId: string, { accountId, subjectId, seq }: EventRow, dueAtMs: number): Promise<void> => {
    const id = messageId(webhookId, accountId, seq);
    const none = { refusals: 0, status: 0, answer: '' };
    await store.write(async (tx) => {
      await insertWaiting(tx, { id, webhookId, accountId, subjectId, seq, dueAtMs, ...none });
      await saveWebhookCursor(tx, webhookId, accountId, seq);
    });
  };

  /** False: stop for now. */
  const deliverSome = async (
    id: string,
    { accountId, after, latest }: PendingAccount,
    waiting: Waiting,
  ): Promise<boolean> => {
    const events = await eventsSince(store.read, accountId, after, EVENTS_AT_ONCE);
    const startedMs = time.elapsed();
    // Expired events are left out.
    let passed = events.length === 0 ? latest : after;
    for (const event of events) {
      const webhook = await refreshed(id);
      if (webhook === null) return false;
      if (isWanted(event, kindsOf(webhook))) {
        const dueAtMs = waiting.dueAtMs.get(waitingKey(event));
        if (dueAtMs !== undefined) {
          if (waiting.count >= MAX_WAITING) break;
          await wait(id, event, dueAtMs);
          waiting.count += 1;
        } else {
          const attempted = await attempt(webhook, event);
          if (stopping.aborted) return false;
          const recorded = await record(attempted);
          if (!recorded.goesOn) return false;
          if (recorded.dueAtMs !== null) {
            waiting.dueAtMs.set(waitingKey(event), recorded.dueAtMs);
            waiting.count += 1;
          }
          if (time.elapsed() - startedMs >= TURN_MS) return false;
        }
      }
      passed = event.seq;
    }
    await store.write((tx) => saveWebhookCursor(tx, id, accountId, passed));
    return true;
  };

  const work = async ({ id }: WebhookRow): Promise<void> => {
    const webhook = await refreshed(id);
    if (webhook === null || !(await deliverBacklog(id))) return;
    const waiting = await readWaiting(store.read, id);
    const page = { after: lastAccountOf.get(id) ?? '', limit: ACCOUNTS_AT_ONCE };
    for (const pending of await accountsPending(store.read, webhook, page)) {
      if (webhook.allAccounts === 1) lastAccountOf.set(id, pending.accountId);
      if (!(await deliverSome(id, pending, waiting))) return;
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
    deliver: async (webhook, event, check) => {
      const { row } = await attempt(webhook, event);
      return store.write(async (tx) => {
        await check(tx);
        if (row.delivered === 1) await deleteFromBacklog(tx, row.id);
        return saveDelivery(tx, row);
      });
    },
    async idle() {
      await Promise.all(active.values());
    },
  };
}
