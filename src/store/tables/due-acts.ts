/** Acts and their times, written in the transaction that changes their subject. */
import { sql } from 'kysely';
import { instanceActs, isSameAct, timedActs, type InstanceAct } from '../../domain/compute/timed-acts.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import type { ActKind, DueAct } from '../../domain/kernel/due-act.ts';
import { NEVER_MS } from '../../domain/regions/off-peak.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

const idOf = (kind: ActKind, subjectId: string): string => `${kind}/${subjectId}`;

const upsert = prepared<DueAct & { id: string }>()((db, p) =>
  db
    .insertInto('dueAct')
    .values({
      id: p('id'),
      kind: p('kind'),
      subjectId: p('subjectId'),
      ownerId: p('ownerId'),
      dueAtMs: p('dueAtMs'),
    })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((eb) => ({
        dueAtMs: eb.ref('excluded.dueAtMs'),
        attempts: 0,
        generation: eb('dueAct.generation', '+', 1),
      })),
    ),
);

/** Sets the time of the act. An act in hand runs once more. */
export async function setAct(tx: Db, act: DueAct): Promise<void> {
  await upsert(tx, { ...act, id: idOf(act.kind, act.subjectId) });
}

export async function insertAct(tx: Db, act: DueAct): Promise<void> {
  const row = { ...act, id: idOf(act.kind, act.subjectId) };
  await tx
    .insertInto('dueAct')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Sets the act, or drops it without a time. */
export const followAct = (tx: Db, { dueAtMs, ...act }: Omit<DueAct, 'dueAtMs'> & { dueAtMs: number | null }) =>
  dueAtMs === null ? dropActs(tx, act.subjectId, [act.kind]) : setAct(tx, { ...act, dueAtMs });

export async function dropActs(tx: Db, subjectId: string, kinds: readonly ActKind[]): Promise<void> {
  const ids = kinds.map((kind) => idOf(kind, subjectId));
  await tx.deleteFrom('dueAct').where('id', 'in', ids).execute();
}

/** Writes the acts of an instance after a change of its row. */
export async function followActs(tx: Db, before: Instance | null, after: Instance): Promise<void> {
  const [was, is] = [before && timedActs(before), timedActs(after)];
  const { id: subjectId, ownerId } = after;
  const dropped: InstanceAct[] = [];
  for (const kind of instanceActs) {
    const dueAtMs = is[kind];
    if (dueAtMs === null) {
      if (was && was[kind] !== null) dropped.push(kind);
    } else if (!before || !isSameAct(kind, before, after)) await setAct(tx, { kind, subjectId, ownerId, dueAtMs });
  }
  if (dropped.length > 0) await dropActs(tx, subjectId, dropped);
}

/** Lets the handler look again at all acts of the kind. */
export async function makeActsDue(tx: Db, kind: ActKind, dueAtMs: number): Promise<void> {
  await tx.updateTable('dueAct').set({ dueAtMs }).where('kind', '=', kind).execute();
}

/** Lets the handlers read the new windows of a region. */
export async function windowsChanged(tx: Db, regionId: string, dueAtMs: number): Promise<void> {
  await tx
    .updateTable('dueAct')
    .set({ dueAtMs })
    .where('kind', 'in', ['window', 'resume'] satisfies InstanceAct[])
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('instance')
          .select('instance.id')
          .whereRef('instance.id', '=', 'dueAct.subjectId')
          .where('regionId', '=', regionId),
      ),
    )
    .execute();
}

/** Acts of a kind, for administrators. */
export interface DueKind {
  kind: string;
  count: number;
  nextAtMs: number | null;
  failing: { subjectId: string; failures: number; error: string }[];
}

const MAX_FAILING = 20;

export async function dueKinds(db: Db): Promise<DueKind[]> {
  const kinds = await db
    .selectFrom('dueAct')
    .select(({ fn }) => ['kind', fn.countAll<number>().as('count'), fn.min('dueAtMs').as('atMs')])
    .groupBy('kind')
    .orderBy('kind')
    .execute();
  const failed = (kind: string) =>
    db
      .selectFrom('dueAct')
      .select(({ ref }) => ['subjectId', 'attempts as failures', ref('error').$notNull().as('error')])
      .where('kind', '=', kind)
      .where('error', 'is not', null)
      .orderBy('subjectId')
      .limit(MAX_FAILING)
      .execute();
  return Promise.all(
    kinds.map(async ({ kind, count, atMs }) => ({
      kind,
      count,
      nextAtMs: atMs === null || atMs >= NEVER_MS ? null : atMs,
      failing: await failed(kind),
    })),
  );
}

interface Held {
  id: string;
  leaseToken: string;
}

/** Deletes a finished act, unless made due meanwhile. */
export async function finishAct(tx: Db, { id, leaseToken }: Held): Promise<boolean> {
  const done = tx.deleteFrom('dueAct').where('id', '=', id).where('leaseToken', '=', leaseToken);
  const row = await done.whereRef('dueAtMs', '=', 'leaseUntilMs').returning('id').executeTakeFirst();
  return row !== undefined;
}

/** Null: without an error. */
export async function noteAttempt(tx: Db, { id, leaseToken }: Held, error: string | null): Promise<void> {
  await tx
    .updateTable('dueAct')
    .set({ error, attempts: error === null ? 0 : sql<number>`attempts + 1` })
    .where('id', '=', id)
    .where('leaseToken', '=', leaseToken)
    .execute();
}
