/**
 * The append-only record of an account's resources. The statement that numbers an event also
 * updates version and counters in the account's row, locked until the commit. So events of an
 * account commit in order of their numbers, without gaps: a reader at n has seen all up to n.
 */
import type { Selectable } from 'kysely';
import { count, prepared } from '../db/prepared.ts';
import type { EventTable } from '../db/schema.ts';
import type { Db, Store } from '../store.ts';
import { moveUsage, type UsageChange } from './quotas.ts';

export type EventRow = Selectable<EventTable>;

export interface NewEvent {
  accountId: string;
  atMs: number;
  kind: string;
  subjectId: string;
  data: object;
  counts?: { instances?: number; volumes?: number };
  /** Change of what the subject uses of the account's quotas. */
  usage?: UsageChange;
}

export interface AppendedEvent {
  seq: number;
  version: number;
  isDisabled: boolean;
}

const moveAccount = prepared<{ accountId: string; instances: number; volumes: number }>()((db, p) =>
  db
    .updateTable('account')
    .set((eb) => ({
      eventSeq: eb('eventSeq', '+', 1),
      version: eb('version', '+', 1),
      instanceCount: eb('instanceCount', '+', p('instances')),
      volumeCount: eb('volumeCount', '+', p('volumes')),
    }))
    .where('id', '=', p('accountId'))
    .returning(['eventSeq', 'version', 'disabled', 'usage']),
);

const insertEvent = prepared<Omit<Selectable<EventTable>, 'id'>>()((db, p) =>
  db.insertInto('event').values({
    accountId: p('accountId'),
    seq: p('seq'),
    atMs: p('atMs'),
    kind: p('kind'),
    subjectId: p('subjectId'),
    data: p('data'),
  }),
);

/** Numbers and writes one event. Throws for an unknown account, and `over_quota`. */
export async function appendEvent(tx: Db, event: NewEvent): Promise<AppendedEvent> {
  const { accountId, atMs, kind, subjectId, counts } = event;
  const [account] = await moveAccount(tx, {
    accountId,
    instances: counts?.instances ?? 0,
    volumes: counts?.volumes ?? 0,
  });
  if (!account)
    throw new Error(`An event (${kind} of ${subjectId}) names the account ${accountId}, which does not exist.`);
  await insertEvent(tx, { accountId, seq: account.eventSeq, atMs, kind, subjectId, data: JSON.stringify(event.data) });
  if (event.usage) await moveUsage(tx, accountId, account.usage, event.usage);
  return { seq: account.eventSeq, version: account.version, isDisabled: account.disabled === 1 };
}

const moveAccountVersion = prepared<{ accountId: string; instances: number }>()((db, p) =>
  db
    .updateTable('account')
    .set((eb) => ({ version: eb('version', '+', 1), instanceCount: eb('instanceCount', '+', p('instances')) }))
    .where('id', '=', p('accountId'))
    .returning('usage'),
);

/** Increments the version for a listed change without an event, such as a pull's progress. */
export async function bumpVersion(
  tx: Db,
  accountId: string,
  { instances = 0, usage }: { instances?: number; usage?: UsageChange } = {},
): Promise<void> {
  const [account] = await moveAccountVersion(tx, { accountId, instances });
  if (account && usage) await moveUsage(tx, accountId, account.usage, usage);
}

const eventsAfter = prepared<{ accountId: string; seq: number; limit: number }>()((db, p) =>
  db
    .selectFrom('event')
    .selectAll()
    .where('accountId', '=', p('accountId'))
    .where('seq', '>', p('seq'))
    .orderBy('seq')
    .limit(count(p('limit'))),
);

/** Events after number `seq`, in order, at most `limit`. */
export const eventsSince = (db: Db, accountId: string, seq: number, limit: number): Promise<EventRow[]> =>
  eventsAfter(db, { accountId, seq, limit });

const eventsOfSubject = prepared<{ accountId: string; subjectId: string; after: number; to: number }>()((db, p) =>
  db
    .selectFrom('event')
    .selectAll()
    .where('accountId', '=', p('accountId'))
    .where('seq', '>', p('after'))
    .where('seq', '<=', p('to'))
    .where('subjectId', '=', p('subjectId'))
    .orderBy('seq'),
);

/** Events of one subject after `after` up to `to`. Reads every event in that span. */
export const eventsAbout = (
  db: Db,
  span: { accountId: string; subjectId: string; after: number; to: number },
): Promise<EventRow[]> => eventsOfSubject(db, span);

/** Last number before `atMs`, by binary search; exact only while the clock went forward. */
export async function seqBefore(db: Db, accountId: string, atMs: number): Promise<number> {
  const [first] = await eventsSince(db, accountId, 0, 1);
  let before = (first?.seq ?? 1) - 1;
  let until = await latestSeq(db, accountId);
  while (before < until) {
    const middle = before + Math.ceil((until - before) / 2);
    const [event] = await eventsSince(db, accountId, middle - 1, 1);
    if (event && event.atMs < atMs) before = middle;
    else until = middle - 1;
  }
  return before;
}

const lastNumber = prepared<{ accountId: string }>()((db, p) =>
  db.selectFrom('account').select('eventSeq').where('id', '=', p('accountId')),
);

/** Number of the latest event, stored or deleted; 0 for an unknown account. */
export async function latestSeq(db: Db, accountId: string): Promise<number> {
  const [row] = await lastNumber(db, { accountId });
  return row?.eventSeq ?? 0;
}

export async function versionsOf(store: Store, accountIds: readonly string[]): Promise<Map<string, number>> {
  if (accountIds.length === 0) return new Map();
  if (store.kind === 'sqlite') {
    const versions = accountIds.map(async (id): Promise<[string, number]> => [id, await store.versionOf(id)]);
    return new Map(await Promise.all(versions));
  }
  const rows = await store.read.selectFrom('account').select(['id', 'version']).where('id', 'in', accountIds).execute();
  return new Map(rows.map(({ id, version }) => [id, version]));
}

/**
 * Deletes events before `beforeMs` among the `limit` oldest: a prefix of the ids, so numbers get no
 * gap even after the clock was set back. Returns how many.
 */
export async function deleteEventsBefore(tx: Db, beforeMs: number, limit: number): Promise<number> {
  const oldest = await tx.selectFrom('event').select(['id', 'atMs']).orderBy('id').limit(limit).execute();
  const firstRetained = oldest.findIndex(({ atMs }) => atMs >= beforeMs);
  const last = oldest.at(firstRetained === -1 ? -1 : firstRetained - 1);
  if (firstRetained === 0 || !last) return 0;
  const gone = await tx.deleteFrom('event').where('id', '<=', last.id).executeTakeFirst();
  return Number(gone.numDeletedRows);
}
