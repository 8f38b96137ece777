import { sql, type Selectable } from 'kysely';
import {
  BYTES_PER_GB,
  diskKey,
  diskKinds,
  type CountedSize,
  type Disk,
  type DiskId,
  type PoolName,
} from '../../domain/storage/disk.ts';
import { regionId, userId } from '../../domain/kernel/ids.ts';
import { locking } from '../db/dialect.ts';
import { oneOf, parseJson } from '../db/columns.ts';
import { volumeSource } from './json-schemas.ts';
import { poolName, releasePoolSpace, reservePoolSpace, type ReserveOptions } from './pools.ts';
import { prepared } from '../db/prepared.ts';
import type { DiskTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

const fromRow = (row: Selectable<DiskTable>): Disk => ({
  kind: oneOf(diskKinds, row.kind),
  id: row.subjectId,
  regionId: regionId(row.regionId),
  pool: poolName(row.pool),
  ownerId: userId(row.ownerId),
  sizeGB: row.sizeGB,
  promisedGB: row.promisedGB,
  bestEffortGB: row.bestEffortGB,
  provisioned: row.provisioned === 1,
  usageBytes: row.usageBytes,
  warnedPercent: row.warnedPercent,
});

export type NewDisk = Omit<Disk, 'provisioned' | 'usageBytes' | 'warnedPercent'>;

/** Inserts a disk that doesn't exist; returns the free space when the pool has too little. */
export async function insertDisk(tx: Db, disk: NewDisk, options: ReserveOptions): Promise<{ freeGB: number } | null> {
  const { kind, id, regionId: region, pool, ownerId, sizeGB, promisedGB, bestEffortGB } = disk;
  const counted = { sizeGB, promisedGB, bestEffortGB };
  const row = { id: diskKey(disk), kind, subjectId: id, regionId: region, pool, ownerId, ...counted };
  const inserted = await insert(tx, row);
  return inserted.length === 0 ? null : reservePoolSpace(tx, disk, options);
}

type NewRow = Pick<
  Selectable<DiskTable>,
  'id' | 'kind' | 'subjectId' | 'regionId' | 'pool' | 'ownerId' | 'sizeGB' | 'promisedGB' | 'bestEffortGB'
>;

const insert = prepared<NewRow>()((db, p) =>
  db
    .insertInto('disk')
    .values({
      id: p('id'),
      kind: p('kind'),
      subjectId: p('subjectId'),
      regionId: p('regionId'),
      pool: p('pool'),
      ownerId: p('ownerId'),
      sizeGB: p('sizeGB'),
      promisedGB: p('promisedGB'),
      bestEffortGB: p('bestEffortGB'),
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returning('id'),
);

/** Reserves the difference, or returns the pool's free space. */
export async function resizeDisk(
  tx: Db,
  disk: Disk,
  { sizeGB, promisedGB, bestEffortGB }: CountedSize,
  options: ReserveOptions,
): Promise<{ freeGB: number } | null> {
  await tx.updateTable('disk').set({ sizeGB, promisedGB, bestEffortGB }).where('id', '=', diskKey(disk)).execute();
  const difference = { promisedGB: promisedGB - disk.promisedGB, bestEffortGB: bestEffortGB - disk.bestEffortGB };
  return reservePoolSpace(tx, { ...disk, ...difference }, options);
}

/** GB promised to an account in a pool. */
export async function promisedGBOf(db: Db, { ownerId, regionId: region, pool }: NewDisk): Promise<number> {
  const { sum } = await db
    .selectFrom('disk')
    .select(sql<number | string>`coalesce(sum(${sql.ref('promisedGB')}), 0)`.as('sum'))
    .where('ownerId', '=', ownerId)
    .where('promisedGB', '>', sql.lit(0))
    .where('regionId', '=', region)
    .where('pool', '=', pool)
    .executeTakeFirstOrThrow();
  return Number(sum);
}

/** `false` after a loss: the disks are created again. */
export async function markProvisioned(tx: Db, ids: readonly DiskId[], provisioned: boolean): Promise<void> {
  await tx
    .updateTable('disk')
    .set({ provisioned: provisioned ? 1 : 0 })
    .where('id', 'in', ids.map(diskKey))
    .where('provisioned', '=', provisioned ? 0 : 1)
    .execute();
}

export async function deleteDisks(tx: Db, ids: readonly DiskId[]): Promise<void> {
  for (const id of ids) {
    const row = await tx.deleteFrom('disk').where('id', '=', diskKey(id)).returningAll().executeTakeFirst();
    if (row === undefined) continue;
    await releasePoolSpace(tx, fromRow(row));
  }
}

export async function disksAmong(db: Db, ids: readonly DiskId[]): Promise<Disk[]> {
  if (ids.length === 0) return [];
  const rows = await db.selectFrom('disk').selectAll().where('id', 'in', ids.map(diskKey)).execute();
  return rows.map(fromRow);
}

export async function disksOfOwner(db: Db, ownerId: string): Promise<Disk[]> {
  return (await db.selectFrom('disk').selectAll().where('ownerId', '=', ownerId).execute()).map(fromRow);
}

export async function lockDisk(tx: Db, id: DiskId): Promise<Disk | undefined> {
  const row = await locking(tx, tx.selectFrom('disk').selectAll().where('id', '=', diskKey(id))).executeTakeFirst();
  return row && fromRow(row);
}

export async function disksOfRegion(db: Db, region: string, afterKey: string, limit: number): Promise<Disk[]> {
  const rows = await db
    .selectFrom('disk')
    .selectAll()
    .where('regionId', '=', region)
    .where('id', '>', afterKey)
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map(fromRow);
}

export async function hasDisks(db: Db, pool: PoolName): Promise<boolean> {
  return (await db.selectFrom('disk').select('id').where('pool', '=', pool).limit(1).executeTakeFirst()) !== undefined;
}

/** Ids of volumes that are copies (`copies`) or have some (`copied`): volumes and snapshots. */
export async function copiesInRegion(db: Db, region: string): Promise<{ copies: Set<string>; copied: Set<string> }> {
  const volumes = await db
    .selectFrom('volume')
    .select(['id', 'source'])
    .where('regionId', '=', region)
    .where('source', 'is not', null)
    .execute();
  const snapshots = await db.selectFrom('snapshot').select('volumeId').where('regionId', '=', region).execute();
  const sources = volumes.flatMap(({ id, source }) =>
    source === null ? [] : [parseJson(volumeSource, source, { table: 'volume', id, column: 'source' }).id],
  );
  return {
    copies: new Set(volumes.map(({ id }) => id)),
    copied: new Set([...snapshots.map(({ volumeId }) => volumeId), ...sources]),
  };
}

export async function disksFilledTo(db: Db, region: string, percent: number): Promise<Disk[]> {
  const rows = await db
    .selectFrom('disk')
    .selectAll()
    .where('regionId', '=', region)
    .where('usageBytes', '>', 0)
    .where(sql<boolean>`${sql.ref('usageBytes')} * 100 >= ${sql.ref('sizeGB')} * ${sql.lit(BYTES_PER_GB * percent)}`)
    .orderBy('id')
    .execute();
  return rows.map(fromRow);
}

/** Returns false when the disk is gone or another process has warned its owner meanwhile. */
export async function writeMeasuredUsage(
  tx: Db,
  disk: Disk,
  { usageBytes, warnedPercent }: Pick<Disk, 'usageBytes' | 'warnedPercent'>,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('disk')
    .set({ usageBytes, warnedPercent })
    .where('id', '=', diskKey(disk))
    .where('warnedPercent', '=', disk.warnedPercent)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
