/** Instances that are not released: what can be reached, and nothing else. */
import type { InstanceRow } from './instances.ts';
import type { Db } from './store.ts';

/** Those that are not released, by id from `afterId` on. */
export async function standingRows(db: Db, afterId: string, limit: number): Promise<InstanceRow[]> {
  return db
    .selectFrom('instance')
    .selectAll()
    .where('desired', '<>', 'released')
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Those of them that are not released. */
export async function standingAmong(db: Db, ids: readonly string[]): Promise<InstanceRow[]> {
  return db.selectFrom('instance').selectAll().where('id', 'in', ids).where('desired', '<>', 'released').execute();
}
