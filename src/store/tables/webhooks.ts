/** Webhooks, their cursors in the events of accounts, and their last deliveries. */
import { sql, type Insertable, type Selectable, type Updateable } from 'kysely';
import { parseJson } from '../db/columns.ts';
import { count, prepared } from '../db/prepared.ts';
import type { WebhookDeliveryTable, WebhookTable } from '../db/webhook-schema.ts';
import type { Db } from '../store.ts';
import { texts } from './json-schemas.ts';

export type WebhookRow = Selectable<WebhookTable>;
export type WebhookDeliveryRow = Selectable<WebhookDeliveryTable>;

const DELIVERIES_RETAINED = 100;

export const webhooksOf = (db: Db, ownerId: string): Promise<WebhookRow[]> =>
  db.selectFrom('webhook').selectAll().where('ownerId', '=', ownerId).orderBy('createdAtMs').orderBy('id').execute();

export const ownedWebhook = (db: Db, ownerId: string, id: string): Promise<WebhookRow | undefined> =>
  db.selectFrom('webhook').selectAll().where('ownerId', '=', ownerId).where('id', '=', id).executeTakeFirst();

export const kindsOf = ({ id, kinds }: Pick<WebhookRow, 'id' | 'kinds'>): string[] =>
  parseJson(texts, kinds, { table: 'webhook', id, column: 'kinds' });

/** Inserts a webhook that begins with the next event of each account. */
export async function insertWebhook(tx: Db, row: Insertable<WebhookTable>): Promise<void> {
  await tx.insertInto('webhook').values(row).execute();
  const accounts = tx
    .selectFrom('account')
    .select([sql<string>`${row.id}`.as('webhookId'), 'id as accountId', 'eventSeq as seq'])
    .$if(row.allAccounts === 0, (query) => query.where('id', '=', row.ownerId));
  await tx.insertInto('webhookCursor').columns(['webhookId', 'accountId', 'seq']).expression(accounts).execute();
}

export async function updateWebhook(tx: Db, id: string, change: Updateable<WebhookTable>): Promise<void> {
  await tx.updateTable('webhook').set(change).where('id', '=', id).execute();
}

export async function deleteWebhook(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom('webhook').where('id', '=', id).execute();
}

const due = prepared<{ nowMs: number; limit: number }>()((db, p) =>
  enabledWebhooks(db)
    .where('nextAttemptAtMs', '<=', p('nowMs'))
    .where((eb) =>
      eb.or([
        eb('allAccounts', '=', 1),
        eb.exists(
          eb
            .selectFrom('webhookBacklog')
            .select('seq')
            .whereRef('webhookId', '=', 'webhook.id')
            .where('dueAtMs', '<=', p('nowMs')),
        ),
        eb.not(
          eb.exists(
            eb
              .selectFrom('webhookCursor')
              .select('seq')
              .whereRef('webhookId', '=', 'webhook.id')
              .whereRef('accountId', '=', 'webhook.ownerId')
              .whereRef('seq', '>=', 'owner.eventSeq'),
          ),
        ),
      ]),
    )
    .orderBy('nextAttemptAtMs')
    .limit(count(p('limit'))),
);

/** Enabled webhooks that are due and have an event, or are of all accounts; last served last. */
export const dueWebhooks = (db: Db, nowMs: number, limit: number): Promise<(WebhookRow & { roles: string })[]> =>
  due(db, { nowMs, limit });

/** Undefined once deleted or switched off. */
export const enabledWebhook = (db: Db, id: string): Promise<(WebhookRow & { roles: string }) | undefined> =>
  enabledWebhooks(db).where('webhook.id', '=', id).executeTakeFirst();

const enabledWebhooks = (db: Db) =>
  db
    .selectFrom('webhook')
    .innerJoin('account as owner', 'owner.id', 'webhook.ownerId')
    .selectAll('webhook')
    .select('owner.roles')
    .where('enabled', '=', sql.lit(1))
    .where('owner.disabled', '=', sql.lit(0));

export interface PendingAccount {
  accountId: string;
  /** Last event delivered, and last event there is. */
  after: number;
  latest: number;
}

/** Accounts with events behind the webhook's cursors: those after that ID, then the others. */
export async function accountsPending(
  db: Db,
  webhook: WebhookRow,
  { after, limit }: { after: string; limit: number },
): Promise<PendingAccount[]> {
  return db
    .selectFrom('account')
    .leftJoin('webhookCursor as cursor', (join) =>
      join.onRef('cursor.accountId', '=', 'account.id').on('cursor.webhookId', '=', webhook.id),
    )
    .select(['account.id as accountId', 'account.eventSeq as latest', sql<number>`coalesce(cursor.seq, 0)`.as('after')])
    .$if(webhook.allAccounts === 0, (query) => query.where('account.id', '=', webhook.ownerId))
    .whereRef('account.eventSeq', '>', sql<number>`coalesce(cursor.seq, 0)`)
    .orderBy((eb) => eb('account.id', '<=', after))
    .orderBy('account.id')
    .limit(limit)
    .execute();
}

export async function saveWebhookCursor(tx: Db, webhookId: string, accountId: string, seq: number): Promise<void> {
  await tx
    .insertInto('webhookCursor')
    .values({ webhookId, accountId, seq })
    .onConflict((conflict) => conflict.columns(['webhookId', 'accountId']).doUpdateSet({ seq }))
    .execute();
}

/** Records the last attempt for an event, and deletes the oldest deliveries beyond a hundred. */
export async function saveDelivery(tx: Db, row: Omit<WebhookDeliveryRow, 'attempts'>): Promise<WebhookDeliveryRow> {
  const { atMs, delivered, status, answer, tookMs, webhookId } = row;
  const saved = await tx
    .insertInto('webhookDelivery')
    .values({ ...row, attempts: 1 })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((eb) => ({
        atMs,
        delivered,
        status,
        answer,
        tookMs,
        attempts: eb('webhookDelivery.attempts', '+', 1),
      })),
    )
    .returningAll()
    .executeTakeFirstOrThrow();
  const newest = tx
    .selectFrom('webhookDelivery as newest')
    .select('newest.id')
    .where('newest.webhookId', '=', webhookId)
    .orderBy('newest.atMs', 'desc')
    .orderBy('newest.id', 'desc')
    .limit(DELIVERIES_RETAINED);
  await tx.deleteFrom('webhookDelivery').where('webhookId', '=', webhookId).where('id', 'not in', newest).execute();
  return saved;
}

/** Newest first. */
export const deliveriesOf = (db: Db, webhookId: string): Promise<WebhookDeliveryRow[]> =>
  db
    .selectFrom('webhookDelivery')
    .selectAll()
    .where('webhookId', '=', webhookId)
    .orderBy('atMs', 'desc')
    .orderBy('id', 'desc')
    .execute();
