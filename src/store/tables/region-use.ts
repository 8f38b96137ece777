/** Capacity and use of regions, a row every five minutes. */
import { sql } from 'kysely';
import type { RegionUse, UseOfResource, UsePoint } from '../../domain/regions/region-use.ts';
import type { Db } from '../store.ts';

const rounded = ({ total, promised, used }: UseOfResource): [number, number, number | null] => [
  Math.round(total),
  Math.round(promised),
  used === null ? null : Math.round(used),
];

/** Keeps the first row of a time. */
export async function saveRegionUse(tx: Db, at: { regionId: string; atMs: number }, use: RegionUse): Promise<void> {
  const [cpuMilliTotal, cpuMilliPromised, cpuMilliUsed] = rounded(use.cpuMilli);
  const [memoryMiBTotal, memoryMiBPromised, memoryMiBUsed] = rounded(use.memoryMiB);
  const [gpuMilliTotal, gpuMilliPromised, gpuMilliUsed] = rounded(use.gpuMilli);
  const [diskGBTotal, diskGBPromised, diskGBUsed] = rounded(use.diskGB);
  await tx
    .insertInto('regionUse')
    .values({
      ...at,
      cpuMilliTotal,
      cpuMilliPromised,
      cpuMilliUsed,
      memoryMiBTotal,
      memoryMiBPromised,
      memoryMiBUsed,
      gpuMilliTotal,
      gpuMilliPromised,
      gpuMilliUsed,
      diskGBTotal,
      diskGBPromised,
      diskGBUsed,
    })
    .onConflict((conflict) => conflict.columns(['regionId', 'atMs']).doNothing())
    .execute();
}

export const deleteRegionUseBefore = (tx: Db, regionId: string, beforeMs: number): Promise<unknown> =>
  tx.deleteFrom('regionUse').where('regionId', '=', regionId).where('atMs', '<', beforeMs).execute();

/** Means of each step that has rows, oldest first. */
export async function regionUseBetween(
  db: Db,
  regionId: string,
  { fromMs, toMs, stepMs }: { fromMs: number; toMs: number; stepMs: number },
): Promise<UsePoint[]> {
  const step = sql<number>`cast("atMs" / ${sql.lit(stepMs)} as bigint) * ${sql.lit(stepMs)}`;
  const mean = (column: string) => sql<number>`cast(avg(${sql.ref(column)}) as double precision)`;
  const rows = await db
    .selectFrom('regionUse')
    .select([
      step.as('atMs'),
      mean('cpuMilliTotal').as('cpuMilliTotal'),
      mean('cpuMilliPromised').as('cpuMilliPromised'),
      sql<number | null>`cast(avg("cpuMilliUsed") as double precision)`.as('cpuMilliUsed'),
      mean('memoryMiBTotal').as('memoryMiBTotal'),
      mean('memoryMiBPromised').as('memoryMiBPromised'),
      sql<number | null>`cast(avg("memoryMiBUsed") as double precision)`.as('memoryMiBUsed'),
      mean('gpuMilliTotal').as('gpuMilliTotal'),
      mean('gpuMilliPromised').as('gpuMilliPromised'),
      sql<number | null>`cast(avg("gpuMilliUsed") as double precision)`.as('gpuMilliUsed'),
      mean('diskGBTotal').as('diskGBTotal'),
      mean('diskGBPromised').as('diskGBPromised'),
      sql<number | null>`cast(avg("diskGBUsed") as double precision)`.as('diskGBUsed'),
    ])
    .where('regionId', '=', regionId)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', toMs)
    .groupBy(step)
    .orderBy(step)
    .execute();
  return rows.map((row) => ({
    atMs: row.atMs,
    cpuMilli: { total: row.cpuMilliTotal, promised: row.cpuMilliPromised, used: row.cpuMilliUsed },
    memoryMiB: { total: row.memoryMiBTotal, promised: row.memoryMiBPromised, used: row.memoryMiBUsed },
    gpuMilli: { total: row.gpuMilliTotal, promised: row.gpuMilliPromised, used: row.gpuMilliUsed },
    diskGB: { total: row.diskGBTotal, promised: row.diskGBPromised, used: row.diskGBUsed },
  }));
}
