/** Events beside the cursors of webhooks: some wait after a refusal, others are set aside. */
import type { Selectable } from 'kysely';
import { count, prepared } from '../db/prepared.ts';
import type { WebhookBacklogTable } from '../db/webhook-schema.ts';
import type { Db } from '../store.ts';
import type { EventRow } from './events.ts';

export type BacklogRow = Selectable<WebhookBacklogTable>;
export type DueRow = Pick<BacklogRow, 'refusals' | 'setAsideAtMs'> & EventRow;
export type SetAsideRow = BacklogRow & Pick<EventRow, 'kind'> & { setAsideAtMs: number };

const SET_ASIDE_RETAINED = 500;

const due = prepared<{ webhookId: string; nowMs: number }>()((db, p) =>
  db
    .selectFrom('webhookBacklog as backlog')
    .innerJoin('event', (join) =>
      join.onRef('event.accountId', '=', 'backlog.accountId').onRef('event.seq', '=', 'backlog.seq'),
    )
    .selectAll('event')
    .select(['backlog.refusals', 'backlog.setAsideAtMs'])
    .where('backlog.webhookId', '=', p('webhookId'))
    .where('backlog.dueAtMs', '<=', p('nowMs'))
    .orderBy('backlog.dueAtMs')
    .orderBy('backlog.accountId')
    .orderBy('backlog.seq')
    .limit(count(1)),
);

/** The next event of the backlog that is due, if there is one. */
export const dueInBacklog = async (db: Db, webhookId: string, nowMs: number): Promise<DueRow | undefined> =>
  (await due(db, { webhookId, nowMs }))[0];

const waiting = prepared<{ webhookId: string }>()((db, p) =>
  db
    .selectFrom('webhookBacklog')
    .select(['accountId', 'subjectId', 'dueAtMs'])
    .where('webhookId', '=', p('webhookId'))
    .where('setAsideAtMs', 'is', null),
);

/** Returns a row for each event that waits. */
export const waitingInBacklog = (
  db: Db,
  webhookId: string,
): Promise<Pick<BacklogRow, 'accountId' | 'subjectId' | 'dueAtMs'>[]> => waiting(db, { webhookId });

export const insertWaiting = async (tx: Db, row: Omit<BacklogRow, 'setAsideAtMs'>): Promise<void> => {
  await tx
    .insertInto('webhookBacklog')
    .values({ ...row, setAsideAtMs: null })
    .execute();
};

/**
 * Stores a refused event. While it waits, all that waits for its subject has its next attempt; once
 * it is set aside, the oldest beyond 500 leave.
 */
export async function saveRefused(tx: Db, row: BacklogRow): Promise<void> {
  const { webhookId, accountId, subjectId, refusals, dueAtMs, setAsideAtMs, status, answer } = row;
  await tx
    .insertInto('webhookBacklog')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ refusals, dueAtMs, setAsideAtMs, status, answer }))
    .execute();
  if (setAsideAtMs === null) {
    await tx
      .updateTable('webhookBacklog')
      .set({ dueAtMs })
      .where('webhookId', '=', webhookId)
      .where('setAsideAtMs', 'is', null)
      .where('accountId', '=', accountId)
      .where('subjectId', '=', subjectId)
      .execute();
    return;
  }
  const surplus = ofSetAside(tx, webhookId)
    .select('id')
    .orderBy('setAsideAtMs', 'desc')
    .orderBy('seq', 'desc')
    .limit(SET_ASIDE_RETAINED)
    .offset(SET_ASIDE_RETAINED);
  await tx.deleteFrom('webhookBacklog').where('id', 'in', surplus).execute();
}

export async function deleteFromBacklog(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom('webhookBacklog').where('id', '=', id).execute();
}

const ofSetAside = (db: Db, webhookId: string) =>
  db.selectFrom('webhookBacklog').where('webhookId', '=', webhookId).where('setAsideAtMs', 'is not', null);

export async function setAsideCount(db: Db, webhookId: string): Promise<number> {
  const { total } = await ofSetAside(db, webhookId)
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow();
  return total;
}

/** Newest first. */
export const setAsideOf = (db: Db, webhookId: string, limit: number): Promise<SetAsideRow[]> =>
  ofSetAside(db, webhookId)
    .innerJoin('event', (join) =>
      join.onRef('event.accountId', '=', 'webhookBacklog.accountId').onRef('event.seq', '=', 'webhookBacklog.seq'),
    )
    .selectAll('webhookBacklog')
    .select('event.kind')
    .$narrowType<{ setAsideAtMs: number }>()
    .orderBy('setAsideAtMs', 'desc')
    .orderBy('webhookBacklog.seq', 'desc')
    .limit(limit)
    .execute();

/** Makes events that are set aside due: the one with that ID, or all. Returns how many. */
export async function resendSetAside(
  tx: Db,
  { webhookId, id, nowMs }: { webhookId: string; id: string | undefined; nowMs: number },
): Promise<number> {
  const changed = await tx
    .updateTable('webhookBacklog')
    .set({ dueAtMs: nowMs })
    .where('webhookId', '=', webhookId)
    .where('setAsideAtMs', 'is not', null)
    .$if(id !== undefined, (query) => query.where('id', '=', id ?? ''))
    .executeTakeFirst();
  return Number(changed.numUpdatedRows);
}
