/**
 * # Leases
 *
 * Reconcilers, in one process or several, share the due rows of `instance`, `volume`, `snapshot`,
 * `image` and `dueAct` by leases. A row is due at `dueAtMs`. A claim leases the row to a process
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
import { subjectKinds } from '../../domain/compute/operation.ts';
import { isSqlite, lockedById } from './dialect.ts';
import { count, prepared, type Parameter } from './prepared.ts';
import type { DueActTable, ImageTable, InstanceTable, SnapshotTable, VolumeTable } from './schema.ts';
import type { Db } from '../store.ts';

interface LeaseRows {
  instance: Selectable<InstanceTable>;
  volume: Selectable<VolumeTable>;
  snapshot: Selectable<SnapshotTable>;
  image: Selectable<ImageTable>;
  dueAct: Selectable<DueActTable>;
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

const ofTable = <Query>(query: <Table extends LeaseTable>(table: Table) => Query): Record<LeaseTable, Query> => ({
  instance: query('instance'),
  volume: query('volume'),
  snapshot: query('snapshot'),
  image: query('image'),
  dueAct: query('dueAct'),
});

const claim = <Table extends LeaseTable>(table: Table) =>
  prepared<Claim>()((db, p) => {
    const from = sql.table(table);
    const isDue = sql`${due} <= ${p('nowMs')} and (${leaseUntil} is null or ${leaseUntil} <= ${p('nowMs')})`;
    const picked = sql`
      select id, row_number() over (order by case when turn <= ${p('perOwner')} then 0 else 1 end, ${due}, id) as place
      from (
        select id, ${due}, row_number() over (partition by ${ownerId} order by ${due}, id) as turn
        from (select id, ${ownerId}, ${due} from ${from} where ${isDue} order by ${due}, id limit ${count(CANDIDATES)}) as candidate
      ) as ranked
      order by place limit ${count(p('limit'))}`;
    const mine = isSqlite(db)
      ? picked
      : sql`
        select ${from}.id, place from (${picked}) as picked join ${from} on ${from}.id = picked.id
        where ${isDue} for update of ${from} skip locked`;
    const until = sql`cast(${p('untilMs')} as bigint) + (select place from mine where mine.id = ${from}.id)`;
    return sql<LeaseRow<Table>>`
      with mine as materialized (${mine})
      update ${from}
      set ${leaseOwner} = ${p('owner')}, ${leaseToken} = ${p('token')}, ${leaseUntil} = ${until}, ${due} = ${until}
      where id in (select id from mine) and ${isDue}
      returning *`;
  });

const claims: { [Table in LeaseTable]: (tx: Db, values: Claim) => Promise<LeaseRow<Table>[]> } = {
  instance: claim('instance'),
  volume: claim('volume'),
  snapshot: claim('snapshot'),
  image: claim('image'),
  dueAct: claim('dueAct'),
};

/**
 * Leases up to `limit` due rows, most urgent first: RETURNING has no order, so the position in the
 * claim is added to the lease, in milliseconds.
 */
export async function claimDue<Table extends LeaseTable>(
  tx: Db,
  table: Table,
  values: Claim,
): Promise<LeaseRow<Table>[]> {
  const rows: LeaseRow<Table>[] = await claims[table](tx, values);
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
  const held = sql<SqlBool>`${leaseOwner} = ${lease.owner} and ${leaseToken} in (${sql.join([...lease.tokens])})`;
  await sql`
    update ${sql.table(table)}
    set ${leaseUntil} = ${lease.untilMs}, ${due} = case when ${due} = ${leaseUntil} then ${lease.untilMs} else ${due} end
    where ${lockedById(tx, table, held)}`.execute(tx);
}

const generations = ofTable((table) =>
  prepared<{ owner: string }>()(
    (_, p) =>
      sql<{ id: string; generation: number }>`
        select id, generation from ${sql.table(table)} where ${leaseOwner} = ${p('owner')}`,
  ),
);

/** Leased rows of a process with current generations: superseded reconciles have an older one. */
export const leasedGenerations = (
  db: Db,
  table: LeaseTable,
  owner: string,
): Promise<{ id: string; generation: number }[]> => generations[table](db, { owner });

interface Release {
  id: string;
  token: string;
  dueAtMs: number;
}

const release = (next: (p: Parameter<Release>) => RawBuilder<unknown>) =>
  ofTable((table) =>
    prepared<Release>()(
      (_, p) => sql<{ id: string }>`
        update ${sql.table(table)}
        set ${due} = ${next(p)}, ${leaseOwner} = null, ${leaseToken} = null, ${leaseUntil} = null
        where id = ${p('id')} and ${leaseToken} = ${p('token')} returning id`,
    ),
  );
const isWoken = sql`${due} <> ${leaseUntil}`;
const releaseToRest = release(() => sql`case when ${isWoken} then ${due} end`);
const releaseUntil = release(
  (p) => sql`case when ${isWoken} and ${due} < ${p('dueAtMs')} then ${due} else ${p('dueAtMs')} end`,
);

/**
 * Makes the row due at `dueAtMs` (null: at rest), or earlier if made due during the lease. Returns
 * false when another process has the lease.
 */
export async function releaseLease(
  tx: Db,
  table: LeaseTable,
  id: string,
  token: string,
  { dueAtMs }: { dueAtMs: number | null },
): Promise<boolean> {
  const query = dueAtMs === null ? releaseToRest : releaseUntil;
  return (await query[table](tx, { id, token, dueAtMs: dueAtMs ?? 0 })).length > 0;
}

/** After a clock change: makes all waiting rows due, so each computes its next time again. */
export async function makeAllDue(tx: Db, table: LeaseTable, nowMs: number): Promise<void> {
  await sql`update ${sql.table(table)} set ${due} = ${nowMs} where ${due} > ${nowMs} and ${leaseOwner} is null`.execute(
    tx,
  );
}

/** Releases leases of dead processes, at the start of the only process, and makes the rows due. */
export async function releaseAllLeases(tx: Db, nowMs: number): Promise<void> {
  for (const table of [...subjectKinds, 'dueAct']) {
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

const earliest = ofTable((table) =>
  prepared()(() => {
    const from = sql.table(table);
    return sql<{ at: number | null }>`
      select min(at) as at from (
        select * from (
          select ${due} as at from ${from}
          where ${due} is not null and (${leaseUntil} is null or ${leaseUntil} <= ${due}) order by ${due} limit 1
        ) as free
        union all
        select ${leaseUntil} as at from ${from} where ${leaseOwner} is not null and ${leaseUntil} > ${due}
      ) as waiting`;
  }),
);

/** Time of the next claimable row; null without one. The indexes in use skip rows at rest. */
export const nextDueAt = async (db: Db, table: LeaseTable): Promise<number | null> =>
  (await earliest[table](db, {}))[0]?.at ?? null;
