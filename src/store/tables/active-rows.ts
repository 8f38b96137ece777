import type { InstanceRow } from './instances.ts';
import type { Db } from '../store.ts';

/** Rows after `afterId`, by id; `onlyRunning`: with desired running, found by node ports. */
export async function activeInstanceRows(
  db: Db,
  { afterId, limit, onlyRunning }: { afterId: string; limit: number; onlyRunning: boolean },
): Promise<InstanceRow[]> {
  const rows = db
    .selectFrom('instance')
    .selectAll()
    .where('desired', '<>', 'released')
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit);
  return onlyRunning
    ? rows
        .where('desired', '=', 'running')
        .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('instanceId', '>', afterId))
        .execute()
    : rows.execute();
}

export async function activeRowsAmong(db: Db, ids: readonly string[]): Promise<InstanceRow[]> {
  return db.selectFrom('instance').selectAll().where('id', 'in', ids).where('desired', '<>', 'released').execute();
}
