/** Capacity and use of regions, a row for each resource every five minutes. */
import { sql } from 'kysely';
import { useResources, type RegionUse, type UsePoint } from '../../domain/regions/region-use.ts';
import { complete } from '../db/columns.ts';
import type { Db } from '../store.ts';

/** Keeps the first rows of a time. */
export async function saveRegionUse(tx: Db, at: { regionId: string; atMs: number }, use: RegionUse): Promise<void> {
  const rows = useResources.map((resource) => {
    const { total, promised, used } = use[resource];
    const rounded = { total: Math.round(total), promised: Math.round(promised) };
    return { ...at, resource, ...rounded, used: used === null ? null : Math.round(used) };
  });
  await tx
    .insertInto('regionUse')
    .values(rows)
    .onConflict((conflict) => conflict.columns(['regionId', 'atMs', 'resource']).doNothing())
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
  const mean = <Mean>(column: string) => sql<Mean>`cast(avg(${sql.ref(column)}) as double precision)`;
  const rows = await db
    .selectFrom('regionUse')
    .select([step.as('stepMs'), 'resource', mean<number>('total').as('total')])
    .select([mean<number>('promised').as('promised'), mean<number | null>('used').as('used')])
    .where('regionId', '=', regionId)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', toMs)
    .groupBy([step, 'resource'])
    .orderBy(step)
    .execute();
  return [...Map.groupBy(rows, (row) => row.stepMs)].map(([atMs, ofStep]) => {
    const use = ofStep.map(({ resource, total, promised, used }) => [resource, { total, promised, used }] as const);
    return { atMs, ...complete<RegionUse>(Object.fromEntries(use), useResources) };
  });
}
