/**
 * # Leases
 *
 * How passes share the due rows of `instance`, `volume`, `snapshot` and `image`, in one process or several. A row is due at `dueAtMs`; a claim leases it
 * to a process (`leaseOwner`) under a token of that claim until `leaseUntilMs`, and moves `dueAtMs` there too: a row whose holder
 * died comes up again by itself, and a leased row does not stand at the head of the due index meanwhile. A heartbeat moves both
 * together. So `dueAtMs ≠ leaseUntilMs` says that somebody made the row due while it was held, and `release` then keeps that wake
 * instead of writing the holder's own next time over it.
 *
 * A result is applied only where id, lease token and generation still hold: zero rows means another has the row now, drop it.
 *
 * Claiming is one statement on both engines. Candidates are the oldest due rows, ranked within their owner: at most `perOwner` rows
 * of one owner come first, what room is left goes to the oldest. Candidates are bounded so that a backlog costs the same per claim
 * however long it is; fairness therefore holds among the oldest 2,048 due rows. On PostgreSQL only the picked rows are locked, and
 * those another claimer has locked are skipped, never waited for.
 */
import type { RawBuilder, Selectable, SqlBool } from 'kysely';
import { sql } from 'kysely';
import { count } from './prepared.ts';
import type { ImageTable, InstanceTable, SnapshotTable, VolumeTable } from './schema.ts';
import type { Db } from '../store.ts';

interface LeaseRows {
  instance: Selectable<InstanceTable>;
  volume: Selectable<VolumeTable>;
  snapshot: Selectable<SnapshotTable>;
  image: Selectable<ImageTable>;
}

export type LeaseTable = keyof LeaseRows;
export type LeaseRow<Table extends LeaseTable> = LeaseRows[Table];

export interface Claim {
  /** The process, as `heartbeat` names it. */
  owner: string;
  /** New for each claim. */
  token: string;
  nowMs: number;
  untilMs: number;
  limit: number;
  perOwner: number;
}

const CANDIDATES = 2_048;

const due = sql.ref('dueAtMs');
const leaseUntil = sql.ref('leaseUntilMs');
const leaseToken = sql.ref('leaseToken');
const leaseOwner = sql.ref('leaseOwner');
const ownerId = sql.ref('ownerId');

/**
 * Leases up to `limit` due and free rows; the most urgent first. RETURNING can't tell a row's former `dueAtMs` nor an order, so a
 * row's place in the claim is added to its lease, in milliseconds.
 */
export async function claimDue<Table extends LeaseTable>(
  tx: Db,
  table: Table,
  claim: Claim,
): Promise<LeaseRow<Table>[]> {
  const { owner, token, nowMs, untilMs, limit, perOwner } = claim;
  const from = sql.table(table);
  const isDue = sql`${due} <= ${nowMs} and (${leaseUntil} is null or ${leaseUntil} <= ${nowMs})`;
  const picked = sql`
    select id, row_number() over (order by case when turn <= ${perOwner} then 0 else 1 end, ${due}, id) as place
    from (
      select id, ${due}, row_number() over (partition by ${ownerId} order by ${due}, id) as turn
      from (select id, ${ownerId}, ${due} from ${from} where ${isDue} order by ${due}, id limit ${count(CANDIDATES)}) as candidate
    ) as ranked
    order by place limit ${count(limit)}`;
  const mine = lockFree(tx)
    ? picked
    : sql`
      select ${from}.id, place from (${picked}) as picked join ${from} on ${from}.id = picked.id
      where ${isDue} for update of ${from} skip locked`;
  const until = sql`${untilMs} + (select place from mine where mine.id = ${from}.id)`;
  const { rows } = await sql<LeaseRow<Table>>`
    with mine as materialized (${mine})
    update ${from} set ${leaseOwner} = ${owner}, ${leaseToken} = ${token}, ${leaseUntil} = ${until}, ${due} = ${until}
    where id in (select id from mine) and ${isDue}
    returning *`.execute(tx);
  return rows.sort((a, b) => (a.leaseUntilMs ?? 0) - (b.leaseUntilMs ?? 0));
}

/** Prolongs every lease of a process. */
export async function heartbeat(tx: Db, table: LeaseTable, owner: string, lease: { untilMs: number }): Promise<void> {
  await sql`
    update ${sql.table(table)}
    set ${leaseUntil} = ${lease.untilMs}, ${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end
    where ${leaseOwner} = ${owner}`.execute(tx);
}

/** What a process holds, with the generations of now: a pass that began under another works for nothing. */
export async function leasedGenerations(
  db: Db,
  table: LeaseTable,
  owner: string,
): Promise<{ id: string; generation: number }[]> {
  const { rows } = await sql<{ id: string; generation: number }>`
    select id, generation from ${sql.table(table)} where ${leaseOwner} = ${owner}`.execute(db);
  return rows;
}

/**
 * Gives a row back, due again at `dueAtMs` (null: not until something makes it due), or earlier if it was made due while it was
 * held. False, and nothing is changed, when the lease is another's by now.
 */
export async function releaseLease(
  tx: Db,
  table: LeaseTable,
  id: string,
  token: string,
  next: { dueAtMs: number | null },
): Promise<boolean> {
  const woken = sql`${due} <> ${leaseUntil}`;
  const dueAgain =
    next.dueAtMs === null
      ? sql`case when ${woken} then ${due} end`
      : sql`case when ${woken} and ${due} < ${next.dueAtMs} then ${due} else ${next.dueAtMs} end`;
  const { numAffectedRows } = await sql`
    update ${sql.table(table)}
    set ${due} = ${dueAgain}, ${leaseOwner} = null, ${leaseToken} = null, ${leaseUntil} = null
    where id = ${id} and ${leaseToken} = ${token}`.execute(tx);
  return numAffectedRows === 1n;
}

/** The date went back, or nobody knows whether it did: what waits for a later time is looked at now, and says anew for how long. */
export async function makeAllDue(tx: Db, table: LeaseTable, nowMs: number): Promise<void> {
  await sql`update ${sql.table(table)} set ${due} = ${nowMs} where ${due} > ${nowMs} and ${leaseOwner} is null`.execute(
    tx,
  );
}

/** At the start of the only process on a database: whoever held leases is dead, and what they held is looked at at once. */
export async function releaseAllLeases(tx: Db, nowMs: number): Promise<void> {
  for (const table of ['instance', 'volume', 'snapshot', 'image'] as const) {
    await sql`
      update ${sql.table(table)} set ${leaseOwner} = null, ${leaseToken} = null, ${leaseUntil} = null, ${due} = ${nowMs}
      where ${leaseOwner} is not null`.execute(tx);
  }
}

/** The guard of every write of a result: `….where(isLeaseHeld({ id, leaseToken, generation }))`. */
export const isLeaseHeld = (hold: { id: string; leaseToken: string; generation: number }): RawBuilder<SqlBool> =>
  sql<SqlBool>`(id = ${hold.id} and ${leaseToken} = ${hold.leaseToken} and generation = ${hold.generation})`;

/** When the next row can be claimed; null when none waits. Rows at rest are not in the indexes that are asked. */
export async function nextDueAt(db: Db, table: LeaseTable): Promise<number | null> {
  const from = sql.table(table);
  const { rows } = await sql<{ at: number | null }>`
    select min(at) as at from (
      select * from (
        select ${due} as at from ${from}
        where ${due} is not null and (${leaseUntil} is null or ${leaseUntil} <= ${due}) order by ${due} limit 1
      ) as free
      union all
      select ${leaseUntil} as at from ${from} where ${leaseOwner} is not null and ${leaseUntil} > ${due}
    ) as waiting`.execute(db);
  return rows[0]?.at ?? null;
}

/** SQLite's one writer needs no row locks, and has none. */
const lockFree = (db: Db): boolean => db.getExecutor().adapter.supportsMultipleConnections === false;
