import { sql, type Selectable } from 'kysely';
import { regionId, type RegionId } from '../../domain/ids.ts';
import type { PoolUsage } from '../../domain/pool.ts';
import { poolNames, type PoolName } from '../../domain/disk.ts';
import { oneOf } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { PoolTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export interface Pool extends PoolUsage {
  regionId: RegionId;
  name: PoolName;
  warned: boolean;
}

export const poolId = (regionId: string, name: PoolName): string => `${regionId}/${name}`;

export const poolName = (text: string): PoolName => oneOf(poolNames, text);

const fromRow = (row: Selectable<PoolTable>): Pool => ({
  regionId: regionId(row.regionId),
  name: poolName(row.name),
  limitGB: row.limitGB,
  usedGB: row.usedGB,
  warned: row.warned === 1,
});

export async function poolsOf(db: Db, regionId: string): Promise<Pool[]> {
  const rows = await db.selectFrom('pool').selectAll().where('regionId', '=', regionId).orderBy('id').execute();
  return rows.map(fromRow);
}

/** Sets the limit; reservations stay, even beyond it. */
export async function savePool(
  tx: Db,
  { regionId: region, name }: Pick<Pool, 'regionId' | 'name'>,
  limitGB: number,
): Promise<void> {
  await tx
    .insertInto('pool')
    .values({ id: poolId(region, name), regionId: region, name, limitGB })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ limitGB }))
    .execute();
}

export async function setPoolWarned(tx: Db, region: string, name: PoolName, warned: boolean): Promise<boolean> {
  const [now, before] = warned ? ([1, 0] as const) : ([0, 1] as const);
  const result = await tx
    .updateTable('pool')
    .set({ warned: now })
    .where('id', '=', poolId(region, name))
    .where('warned', '=', before)
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}

const addAnyway = prepared<{ id: string; sizeGB: number }>()((db, p) =>
  db
    .updateTable('pool')
    .set({ usedGB: sql<number>`${sql.ref('usedGB')} + ${p('sizeGB')}` })
    .where('id', '=', p('id'))
    .returning('id'),
);
const addIfFree = prepared<{ id: string; sizeGB: number }>()((db, p) =>
  db
    .updateTable('pool')
    .set({ usedGB: sql<number>`${sql.ref('usedGB')} + ${p('sizeGB')}` })
    .where('id', '=', p('id'))
    .where(sql<boolean>`${sql.ref('usedGB')} + ${p('sizeGB')} <= ${sql.ref('limitGB')}`)
    .returning('id'),
);

/** Reserves `sizeGB`, or returns the free space if it does not fit. A negative size releases. */
export async function reservePoolSpace(
  tx: Db,
  { regionId: region, pool, sizeGB }: { regionId: string; pool: PoolName; sizeGB: number },
  { evenIfFull = false }: { evenIfFull?: boolean } = {},
): Promise<{ freeGB: number } | null> {
  const id = poolId(region, pool);
  const change = evenIfFull || sizeGB <= 0 ? addAnyway : addIfFree;
  if ((await change(tx, { id, sizeGB })).length > 0) return null;
  const row = await tx.selectFrom('pool').selectAll().where('id', '=', id).executeTakeFirst();
  return { freeGB: row === undefined ? 0 : Math.max(0, row.limitGB - row.usedGB) };
}
