/** Resources of an account, as an administrator sees them: names and sizes, no contents. */
import { sql } from 'kysely';
import { isSqlite } from '../db/dialect.ts';
import type { Db } from '../store.ts';

export interface Holdings {
  counts: { instances: number; volumes: number; volumeGB: number; snapshots: number; images: number };
  instances: { id: string; name: string; status: string }[];
  volumes: { id: string; name: string; sizeGB: number }[];
  snapshots: { id: string; name: string; sizeGB: number }[];
  images: { id: string; name: string }[];
}

/** Longer lists are cut; the counts are complete. */
export const MAX_HOLDINGS_LISTED = 500;

export async function holdingsOf(db: Db, ownerId: string): Promise<Holdings> {
  const limit = MAX_HOLDINGS_LISTED;
  const nameOfSpec = isSqlite(db) ? sql<string>`json_extract(spec, '$.name')` : sql<string>`spec::json ->> 'name'`;
  const instances = db.selectFrom('instance').where('ownerId', '=', ownerId).where('desired', '!=', 'released');
  const volumes = db.selectFrom('volume').where('ownerId', '=', ownerId).where('listed', '=', sql.lit(1));
  const snapshots = db.selectFrom('snapshot').where('ownerId', '=', ownerId).where('status', '!=', 'Terminating');
  const images = db.selectFrom('image').where('ownerId', '=', ownerId).where('state', '!=', 'Deleting');
  const count = async (query: { execute(): Promise<{ count: number | string }[]> }): Promise<number> =>
    Number((await query.execute())[0]?.count ?? 0);
  const all = sql<number>`count(*)`.as('count');
  return {
    counts: {
      instances: await count(instances.select(all)),
      volumes: await count(volumes.select(all)),
      volumeGB: await count(volumes.select(sql<number | string>`coalesce(sum("sizeGB"), 0)`.as('count'))),
      snapshots: await count(snapshots.select(all)),
      images: await count(images.select(all)),
    },
    instances: await instances
      .select(['id', nameOfSpec.as('name'), 'status'])
      .orderBy('id')
      .limit(limit)
      .execute(),
    volumes: await volumes.select(['id', 'name', 'sizeGB']).orderBy('id').limit(limit).execute(),
    snapshots: await snapshots.select(['id', 'name', 'sizeGB']).orderBy('id').limit(limit).execute(),
    images: await images.select(['id', 'name']).orderBy('id').limit(limit).execute(),
  };
}
