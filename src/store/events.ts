/**
 * # Events
 *
 * The append-only record of what happened to an account's things. Its number comes from the account's row, whose update also moves
 * the account's version and counters: one statement, and since that row stays locked until the commit (SQLite has one writer
 * anyway), events of one account commit in the order of their numbers, without gaps: a work that is rolled back gives its number
 * back. So a reader that has seen number n has seen everything up to n.
 */
import type { Selectable } from 'kysely';
import { prepared } from './prepared.ts';
import type { EventTable } from './schema.ts';
import type { Db } from './store.ts';

export interface NewEvent {
  accountId: string;
  atMs: number;
  /** `instance.launched`, `instance.status`, `volume.created` … */
  kind: string;
  subjectId: string;
  /** Kept as JSON. */
  data: object;
  /** By how much the numbers of listed things change. */
  counts?: { instances?: number; volumes?: number };
}

/** What the account's row is after the event. */
export interface Appended {
  seq: number;
  version: number;
  /** Balance, vouchers and credit together. */
  availableMicros: number;
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
    .returning(['eventSeq', 'version', 'balanceMicros', 'voucherMicros', 'creditMicros']),
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

/** Numbers and writes one event. Throws for an account that does not exist: nothing may happen to nobody. */
export async function appendEvent(tx: Db, event: NewEvent): Promise<Appended> {
  const { accountId, atMs, kind, subjectId, counts } = event;
  const [account] = await moveAccount(tx, {
    accountId,
    instances: counts?.instances ?? 0,
    volumes: counts?.volumes ?? 0,
  });
  if (!account)
    throw new Error(`An event (${kind} of ${subjectId}) names the account ${accountId}, which does not exist.`);
  await insertEvent(tx, { accountId, seq: account.eventSeq, atMs, kind, subjectId, data: JSON.stringify(event.data) });
  const availableMicros = account.balanceMicros + account.voucherMicros + account.creditMicros;
  return { seq: account.eventSeq, version: account.version, availableMicros };
}

const moveAccountVersion = prepared<{ accountId: string; instances: number }>()((db, p) =>
  db
    .updateTable('account')
    .set((eb) => ({ version: eb('version', '+', 1), instanceCount: eb('instanceCount', '+', p('instances')) }))
    .where('id', '=', p('accountId')),
);

/** For a change that the account can list and that is no event: the progress of a pull, a row that leaves the lists. */
export async function moveVersion(
  tx: Db,
  accountId: string,
  counts: { instances: number } = { instances: 0 },
): Promise<void> {
  await moveAccountVersion(tx, { accountId, instances: counts.instances });
}

/** The account's events after number `seq`, in order, at most `limit`. */
export const eventsSince = (db: Db, accountId: string, seq: number, limit: number): Promise<Selectable<EventTable>[]> =>
  db
    .selectFrom('event')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('seq', '>', seq)
    .orderBy('seq')
    .limit(limit)
    .execute();
