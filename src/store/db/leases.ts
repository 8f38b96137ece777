/**
 * # Leases
 *
 * Reconcilers, in one process or several, share the due rows of `instance`, `volume`, `snapshot`
 * and `image` by leases. A row is due at `dueAtMs`. A claim leases the row to a process
 * (`leaseOwner`) under a token of the claim until `leaseUntilMs`, and moves `dueAtMs` to the same
 * time: a row of a dead process becomes due again by itself, and a leased row is not at the head
 * of the due index meanwhile. A heartbeat moves both times together. So `dueAtMs ≠ leaseUntilMs`
 * means that the row was made due during its lease, and `releaseLease` keeps that time instead of
 * writing the reconciler's own next time.
 *
 * A result applies only while id, lease token and generation still match: zero rows means
 * superseded, drop the result.
 *
 * A claim is one statement on both engines. Candidates are the oldest due rows, ranked within
 * their owner: at most `perOwner` rows of each owner first, then the oldest of the rest. The
 * number of candidates is bounded, so a claim costs the same for any backlog; fairness therefore
 * holds among the oldest 2,048 due rows. PostgreSQL locks only the picked rows and skips rows
 * locked by another claim.
 */
import type { RawBuilder, Selectable, SqlBool } from 'kysely';
import { sql } from 'kysely';
import { subjectKinds } from '../../domain/operation.ts';
import { isSqlite } from './dialect.ts';
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
  owner: string;
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
 * Leases up to `limit` due rows, most urgent first: RETURNING has no order, so the position in the
 * claim is added to the lease, in milliseconds.
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
  const mine = isSqlite(tx)
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

/**
 * Extends the leases of these claims. A row whose claim committed but was not answered has another
 * token: nobody holds it, so its lease must end.
 */
export async function heartbeat(
  tx: Db,
  table: LeaseTable,
  lease: { owner: string; tokens: Iterable<string>; untilMs: number },
): Promise<void> {
  await sql`
    update ${sql.table(table)}
    set ${leaseUntil} = ${lease.untilMs}, ${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end
    where ${leaseOwner} = ${lease.owner} and ${leaseToken} in (${sql.join([...lease.tokens])})`.execute(tx);
}

/** Leased rows of a process with current generations: superseded reconciles have an older one. */
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
 * Makes the row due at `dueAtMs` (null: at rest), or earlier if made due during the lease. Returns
 * false when another process has the lease.
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

/** After a clock change: makes all waiting rows due, so each computes its next time again. */
export async function makeAllDue(tx: Db, table: LeaseTable, nowMs: number): Promise<void> {
  await sql`update ${sql.table(table)} set ${due} = ${nowMs} where ${due} > ${nowMs} and ${leaseOwner} is null`.execute(
    tx,
  );
}

/** Releases leases of dead processes, at the start of the only process, and makes the rows due. */
export async function releaseAllLeases(tx: Db, nowMs: number): Promise<void> {
  for (const table of subjectKinds) {
    await sql`
      update ${sql.table(table)} set ${leaseOwner} = null, ${leaseToken} = null, ${leaseUntil} = null, ${due} = ${nowMs}
      where ${leaseOwner} is not null`.execute(tx);
  }
}

/** Proof that a reconciler still has the row as read: lease and generation. */
export interface LeaseGuard {
  id: string;
  leaseToken: string;
  generation: number;
}

export const isLeaseHeld = (guard: LeaseGuard): RawBuilder<SqlBool> =>
  sql<SqlBool>`(id = ${guard.id} and ${leaseToken} = ${guard.leaseToken} and generation = ${guard.generation})`;

/** Time of the next claimable row; null without one. The indexes in use skip rows at rest. */
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
