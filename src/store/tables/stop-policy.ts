/** Stop policies, written outside of reconciles; indexes find the rows with a stop time. */
import type { Region } from '../../domain/catalog.ts';
import { sql } from 'kysely';
import type { Instance } from '../../domain/instance.ts';
import { stopPolicyColumns } from './instance-columns.ts';
import type { Db } from '../store.ts';

export async function writeStopPolicy(tx: Db, instance: Instance, region: Region): Promise<void> {
  await tx.updateTable('instance').set(stopPolicyColumns(instance, region)).where('id', '=', instance.id).execute();
}

export interface Overdue {
  id: string;
  ownerId: string;
  stopDueAtMs: number;
}

/** Instances past their stop time, longest overdue first; `after` null starts at the first. */
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

/** Running instances with an idle limit, by id; `afterId` '' starts at the first. */
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
