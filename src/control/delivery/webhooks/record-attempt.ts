/**
 * Records an attempt, and decides what follows. A success or a refusal (4xx) moves on: a refused
 * event waits beside the cursor with back-off, and is set aside after some refusals. Any other
 * failure is of the endpoint: the webhook waits as a whole. 410, a long time of failures or many
 * refusals in a row switch it off.
 */
import { DAY_MS } from '../../../domain/kernel/durations.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import {
  deleteFromBacklog,
  saveRefused,
  waitingInBacklog,
  type BacklogRow,
} from '../../../store/tables/webhook-backlog.ts';
import { saveDelivery, saveWebhookCursor, updateWebhook } from '../../../store/tables/webhooks.ts';
import type { Db, Store } from '../../../store/store.ts';
import type { Attempt } from './attempt.ts';

export interface RecordDeps {
  store: Pick<Store, 'write'>;
  /** In [0, 1); jitter. */
  random: () => number;
}

/** Events of a webhook that wait: from then on a refused one is set aside at once. */
const MANY_WAITING = 100;
/** With this many the cursor waits, too. */
export const MAX_WAITING = 200;
const MAX_REFUSALS = 5;
/** Refusals without a success that switch a webhook off: nothing that is set aside has left yet. */
const MAX_REFUSALS_IN_A_ROW = 500;
/** Failures for so long switch a webhook off. */
const GIVE_UP_MS = 3 * DAY_MS;
const REFUSED_BACK_OFF_MS = 15_000;
const FAILING_AFTER = 5;
const BACK_OFF_MS = 5_000;
/** Least wait after a failure, whatever the receiver asks for. */
const MIN_WAIT_MS = BACK_OFF_MS / 2;
const MAX_BACK_OFF_MS = 3_600_000;
const GONE = 410;
/** Answers about the endpoint or the moment, not about the event. */
const NO_REFUSALS: ReadonlySet<number> = new Set([408, GONE, 425, 429]);
const SET_ASIDE = 'webhook.eventSetAside';

/** Returns whether other events go on, and the next attempt of an event that waits now. */
export type RecordAttempt = (attempt: Attempt) => Promise<{ goesOn: boolean; dueAtMs: number | null }>;

export const makeRecordAttempt = ({ store, random }: RecordDeps): RecordAttempt => {
  const backOff = (firstMs: number, attempts: number): number =>
    Math.min(MAX_BACK_OFF_MS, firstMs * 2 ** (attempts - 1)) * (0.5 + random() / 2);

  const succeed = async (tx: Db, { webhook, row, backlog }: Attempt): Promise<void> => {
    const served = { attempts: 0, failures: 0, failingSinceMs: null, lastError: '', nextAttemptAtMs: row.atMs };
    await updateWebhook(tx, webhook.id, served);
    await saveDelivery(tx, row);
    if (backlog === null) await saveWebhookCursor(tx, webhook.id, row.accountId, row.seq);
    else await deleteFromBacklog(tx, row.id);
  };

  /** Where a refused event goes. */
  const refusedRow = async (tx: Db, { webhook, event, row, backlog }: Attempt): Promise<BacklogRow> => {
    const { id, webhookId, accountId, seq, status, answer, atMs } = row;
    const refusals = (backlog?.refusals ?? 0) + 1;
    const isLast = refusals >= MAX_REFUSALS || (await waitingInBacklog(tx, webhook.id)).length >= MANY_WAITING;
    const setAsideAtMs = backlog?.setAsideAtMs ?? (isLast ? atMs : null);
    const dueAtMs = setAsideAtMs === null ? Math.ceil(atMs + backOff(REFUSED_BACK_OFF_MS, refusals)) : null;
    const { subjectId } = event;
    return { id, webhookId, accountId, seq, subjectId, refusals, dueAtMs, setAsideAtMs, status, answer };
  };

  const fail = async (tx: Db, attempt: Attempt): Promise<BacklogRow | null> => {
    const { webhook, event, row, retryAfterMs, backlog } = attempt;
    const { id, ownerId } = webhook;
    const { status, atMs } = row;
    const refused = status >= 400 && status < 500 && !NO_REFUSALS.has(status) ? await refusedRow(tx, attempt) : null;
    const attempts = webhook.attempts + 1;
    const failures = refused === null ? webhook.failures + 1 : Math.min(webhook.failures, FAILING_AFTER);
    const failingSinceMs = refused === null ? (webhook.failingSinceMs ?? atMs) : null;
    const isOver =
      status === GONE ||
      (failingSinceMs === null ? attempts >= MAX_REFUSALS_IN_A_ROW : atMs - failingSinceMs >= GIVE_UP_MS);
    const askedMs = retryAfterMs ?? backOff(BACK_OFF_MS, failures);
    const waitMs = refused === null ? Math.min(MAX_BACK_OFF_MS, Math.max(MIN_WAIT_MS, askedMs)) : 0;

    // Events lock the account before the webhook.
    const notify = async (kind: string, data: object): Promise<void> => {
      const { host } = new URL(webhook.url);
      await appendEvent(tx, { accountId: ownerId, atMs, kind, subjectId: id, data: { host, status, ...data } });
    };
    const isFirstTime = refused !== null && refused.setAsideAtMs === atMs;
    // Refusals of this event would otherwise notify without end.
    if (isFirstTime && event.kind !== SET_ASIDE)
      await notify(SET_ASIDE, { deliveryId: row.id, accountId: row.accountId, seq: row.seq, kind: row.kind });
    if (isOver) await notify('webhook.disabled', { failingSinceUnixMs: failingSinceMs });
    else if (refused === null && failures === FAILING_AFTER)
      await notify('webhook.failing', { failingSinceUnixMs: failingSinceMs });

    await updateWebhook(tx, id, {
      attempts,
      failures,
      failingSinceMs,
      lastError: status === 0 ? row.answer : `HTTP ${status}: ${row.answer}`,
      nextAttemptAtMs: Math.ceil(atMs + waitMs),
      ...(isOver ? { enabled: 0 as const } : {}),
    });
    await saveDelivery(tx, row);
    if (refused !== null) await saveRefused(tx, refused);
    if (backlog === null) await saveWebhookCursor(tx, id, row.accountId, refused === null ? row.seq - 1 : row.seq);
    return refused;
  };

  return async (attempt) => {
    if (attempt.row.delivered === 1) {
      await store.write((tx) => succeed(tx, attempt));
      return { goesOn: true, dueAtMs: null };
    }
    const refused = await store.write((tx) => fail(tx, attempt));
    return { goesOn: refused !== null, dueAtMs: refused?.dueAtMs ?? null };
  };
};
