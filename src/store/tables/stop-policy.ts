/** What ends instances by itself, in the store: written beside passes and wishes, and found by indexes that hold only those that end. */
import type { Region } from '../../domain/catalog.ts';
import { sql } from 'kysely';
import { stopDueAtMs } from '../../domain/stop-policy.ts';
import type { Instance } from '../../domain/instance.ts';
import { publicInstance } from '../../domain/public-instance.ts';
import type { Db } from '../store.ts';

/** The columns that say what ends it, and all that is made of `ends`; idleness is watched while it runs and is to. */
export const stopPolicyColumns = (instance: Instance, region: Region) => ({
  ends: JSON.stringify(instance.stopPolicy),
  endsAtMs: stopDueAtMs(instance),
  idleAfterMs:
    instance.desired === 'running' && instance.observed.status === 'Running'
      ? (instance.stopPolicy.idle?.afterMs ?? null)
      : null,
  publicText: JSON.stringify(publicInstance(instance, region)),
});

/** Writes what ends an instance over a row that is held. No wish moves: a pass under way goes on. */
export async function writeStopPolicy(tx: Db, instance: Instance, region: Region): Promise<void> {
  await tx.updateTable('instance').set(stopPolicyColumns(instance, region)).where('id', '=', instance.id).execute();
}

/** One of those whose time is over, and since when. */
export interface Overdue {
  id: string;
  ownerId: string;
  endsAtMs: number;
}

/** Instances whose time is over, the longest overdue first; those behind `after`, null: from the first. */
export async function overdueInstances(
  db: Db,
  nowMs: number,
  after: Pick<Overdue, 'endsAtMs' | 'id'> | null,
  limit: number,
): Promise<Overdue[]> {
  let overdue = db.selectFrom('instance').select(['id', 'ownerId', 'endsAtMs']).where('endsAtMs', '<=', nowMs);
  if (after) overdue = overdue.where(sql<boolean>`("endsAtMs", id) > (${after.endsAtMs}, ${after.id})`);
  const rows = await overdue.orderBy('endsAtMs').orderBy('id').limit(limit).execute();
  return rows.map(({ endsAtMs: atMs, ...row }) => ({ ...row, endsAtMs: atMs ?? nowMs }));
}

/** Ids of the running instances that idleness stops, in order, from behind `afterId`; '' is before all. */
export async function idleWatchedIds(db: Db, afterId: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('instance')
    .select('id')
    .where('idleAfterMs', 'is not', null)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}
