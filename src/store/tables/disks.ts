import { sql, type Selectable } from 'kysely';
import { BYTES_PER_GB, diskKey, diskKinds, type Disk, type DiskId, type PoolName } from '../../domain/disk.ts';
import { regionId, userId } from '../../domain/ids.ts';
import { oneOf } from '../db/columns.ts';
import { poolName, reservePoolSpace } from './pools.ts';
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
  provisioned: row.provisioned === 1,
  usageBytes: row.usageBytes,
  warnedPercent: row.warnedPercent,
});

export type NewDisk = Omit<Disk, 'provisioned' | 'usageBytes' | 'warnedPercent'>;

/** Inserts a disk that doesn't exist; returns the free space when the pool has too little. */
export async function insertDisk(
  tx: Db,
  disk: NewDisk,
  options: { evenIfFull?: boolean } = {},
): Promise<{ freeGB: number } | null> {
  const { kind, id, regionId: region, pool, ownerId, sizeGB } = disk;
  const row = { id: diskKey(disk), kind, subjectId: id, regionId: region, pool, ownerId, sizeGB };
  const inserted = await insert(tx, row);
  return inserted.length === 0 ? null : reservePoolSpace(tx, disk, options);
}

type NewRow = Pick<Selectable<DiskTable>, 'id' | 'kind' | 'subjectId' | 'regionId' | 'pool' | 'ownerId' | 'sizeGB'>;

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
    })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returning('id'),
);

/** Reserves more space, or returns the pool's free space. */
export async function growDisk(tx: Db, disk: Disk, sizeGB: number): Promise<{ freeGB: number } | null> {
  await tx.updateTable('disk').set({ sizeGB }).where('id', '=', diskKey(disk)).execute();
  return reservePoolSpace(tx, { ...disk, sizeGB: sizeGB - disk.sizeGB });
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
    const { sizeGB, ...disk } = fromRow(row);
    await reservePoolSpace(tx, { ...disk, sizeGB: -sizeGB });
  }
}

export async function disksAmong(db: Db, ids: readonly DiskId[]): Promise<Disk[]> {
  if (ids.length === 0) return [];
  const rows = await db.selectFrom('disk').selectAll().where('id', 'in', ids.map(diskKey)).execute();
  return rows.map(fromRow);
}

export async function lockDisk(tx: Db, id: DiskId): Promise<Disk | undefined> {
  const row = await tx
    .updateTable('disk')
    .set((disk) => ({ sizeGB: disk.ref('sizeGB') }))
    .where('id', '=', diskKey(id))
    .returningAll()
    .executeTakeFirst();
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

export interface DiskBytes {
  allBytes: number;
  originalBytes: number;
}

/** Used bytes per pool: of all disks, and without copies. */
export async function usageOfPools(db: Db, region: string): Promise<Map<PoolName, DiskBytes>> {
  const rows = await db
    .selectFrom('disk')
    .leftJoin('volume', (join) => join.onRef('volume.id', '=', 'disk.subjectId').on('disk.kind', '=', 'volume'))
    .select([
      'disk.pool',
      sql<number | string>`sum(${sql.ref('disk.usageBytes')})`.as('allBytes'),
      sql<number | string>`sum(case when disk.kind = 'snapshot' or volume.source is not null then 0
        else ${sql.ref('disk.usageBytes')} end)`.as('originalBytes'),
    ])
    .where('disk.regionId', '=', region)
    .groupBy('disk.pool')
    .execute();
  const usageOf = (row: (typeof rows)[number]): DiskBytes => ({
    allBytes: Number(row.allBytes),
    originalBytes: Number(row.originalBytes),
  });
  return new Map(rows.map((row) => [poolName(row.pool), usageOf(row)]));
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
