/** Instances that are not released: what can be reached, and nothing else. */
import type { InstanceRow } from './instances.ts';
import type { Db } from '../store.ts';

/** Those that are not released, by id from `afterId` on. `onlyRunning`: only what is to run and has node ports, by which it is found. */
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

/** Those of them that are not released. */
export async function activeRowsAmong(db: Db, ids: readonly string[]): Promise<InstanceRow[]> {
  return db.selectFrom('instance').selectAll().where('id', 'in', ids).where('desired', '<>', 'released').execute();
}
