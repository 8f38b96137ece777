import { sql, type Selectable } from 'kysely';
import { regionId, type RegionId } from '../../domain/kernel/ids.ts';
import { freeGB, type PoolRules, type PoolUsage } from '../../domain/storage/pool.ts';
import { poolNames, type CountedSpace, type PoolName } from '../../domain/storage/disk.ts';
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
  bestEffortGB: row.bestEffortGB,
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

interface Change extends CountedSpace {
  id: string;
  diskOvercommit: number;
}

const makeChange = ({ evenIfFull }: { evenIfFull: boolean }) =>
  prepared<Change>()((db, p) => {
    const usedGB = sql<number>`${sql.ref('usedGB')} + cast(${p('promisedGB')} as bigint)`;
    const bestEffortGB = sql<number>`${sql.ref('bestEffortGB')} + cast(${p('bestEffortGB')} as bigint)`;
    const factor = sql<number>`cast(${p('diskOvercommit')} as double precision)`;
    return db
      .updateTable('pool')
      .set({ usedGB, bestEffortGB })
      .where('id', '=', p('id'))
      .$if(!evenIfFull, (update) =>
        update.where(sql<boolean>`(${usedGB}) * ${factor} + (${bestEffortGB}) <= ${sql.ref('limitGB')} * ${factor}`),
      )
      .returning('id');
  });

const addAnyway = makeChange({ evenIfFull: true });
const addIfFree = makeChange({ evenIfFull: false });

/** Where space is counted, and how much. */
export interface PoolChange extends CountedSpace {
  regionId: string;
  pool: PoolName;
}

export interface ReserveOptions extends Pick<PoolRules, 'diskOvercommit'> {
  evenIfFull?: boolean;
}

/** Reserves space, or returns the free space if it does not fit. */
export async function reservePoolSpace(
  tx: Db,
  { regionId: region, pool, promisedGB, bestEffortGB }: PoolChange,
  { evenIfFull = false, diskOvercommit }: ReserveOptions,
): Promise<{ freeGB: number } | null> {
  const id = poolId(region, pool);
  const takesMore = promisedGB > 0 || bestEffortGB > 0;
  const change = evenIfFull || !takesMore ? addAnyway : addIfFree;
  if ((await change(tx, { id, promisedGB, bestEffortGB, diskOvercommit })).length > 0) return null;
  const row = await tx.selectFrom('pool').selectAll().where('id', '=', id).executeTakeFirst();
  return { freeGB: row === undefined ? 0 : freeGB(fromRow(row), { diskOvercommit }) };
}

export async function releasePoolSpace(tx: Db, { promisedGB, bestEffortGB, ...pool }: PoolChange): Promise<void> {
  const released = { ...pool, promisedGB: -promisedGB, bestEffortGB: -bestEffortGB };
  await reservePoolSpace(tx, released, { evenIfFull: true, diskOvercommit: 1 });
}
