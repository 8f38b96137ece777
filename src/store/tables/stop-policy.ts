/** What ends instances by itself, in the store: written beside passes and wishes, and found by indexes that hold only those that end. */
import type { Region } from '../../domain/catalog.ts';
import { sql } from 'kysely';
import type { Instance } from '../../domain/instance.ts';
import { stopPolicyColumns } from './instance-columns.ts';
import type { Db } from '../store.ts';

/** Writes what ends an instance over a row that is held. No wish moves: a pass under way goes on. */
export async function writeStopPolicy(tx: Db, instance: Instance, region: Region): Promise<void> {
  await tx.updateTable('instance').set(stopPolicyColumns(instance, region)).where('id', '=', instance.id).execute();
}

/** One of those whose time is over, and since when. */
export interface Overdue {
  id: string;
  ownerId: string;
  stopDueAtMs: number;
}

/** Instances whose time is over, the longest overdue first; those behind `after`, null: from the first. */
export async function overdueInstances(
  db: Db,
  nowMs: number,
  after: Pick<Overdue, 'stopDueAtMs' | 'id'> | null,
  limit: number,
): Promise<Overdue[]> {
  let overdue = db.selectFrom('instance').select(['id', 'ownerId', 'stopDueAtMs']).where('stopDueAtMs', '<=', nowMs);
  if (after) overdue = overdue.where(sql<boolean>`("stopDueAtMs", id) > (${after.stopDueAtMs}, ${after.id})`);
  const rows = await overdue.orderBy('stopDueAtMs').orderBy('id').limit(limit).execute();
  return rows.map(({ stopDueAtMs: atMs, ...row }) => ({ ...row, stopDueAtMs: atMs ?? nowMs }));
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
