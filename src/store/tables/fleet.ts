/** Holders of the capacity of a region, and what disks use of its pools. */
import { sql } from 'kysely';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { instanceSpec } from './json-schemas.ts';
import { poolId, poolName } from './pools.ts';

/** Instances that hold capacity of the region, by id. Rows are few: an index has no others. */
export async function capacityHolders(db: Db, region: string) {
  const rows = await db
    .selectFrom('instance')
    .select(['id', 'ownerId', 'ownerName', 'spec'])
    .where('regionId', '=', region)
    .where('holdsCapacity', '=', sql.lit(1))
    .orderBy('id')
    .execute();
  return rows.map(({ spec, ...row }) => ({
    ...row,
    spec: parseJson(instanceSpec, spec, { table: 'instance', id: row.id, column: 'spec' }),
  }));
}

export type CapacityHolder = Awaited<ReturnType<typeof capacityHolders>>[number];

/** Bytes that disks had written when each was last measured, by the pool's id. */
export async function usageOfPools(db: Db): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('disk')
    .select(['regionId', 'pool', ({ fn }) => fn.sum<number>('usageBytes').as('bytes')])
    .groupBy(['regionId', 'pool'])
    .execute();
  return new Map(rows.map(({ regionId, pool, bytes }) => [poolId(regionId, poolName(pool)), bytes]));
}
