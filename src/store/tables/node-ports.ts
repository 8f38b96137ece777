import type { Db } from '../store.ts';

/** Allots one node port of the region; false when taken. */
export async function allotNodePort(
  tx: Db,
  region: string,
  nodePort: number,
  instance: string,
  port: number,
): Promise<boolean> {
  const result = await tx
    .insertInto('nodePort')
    .values({ regionId: region, nodePort, instanceId: instance, port })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n;
}

export async function allottedNodePorts(db: Db, region: string): Promise<Set<number>> {
  const rows = await db.selectFrom('nodePort').select('nodePort').where('regionId', '=', region).execute();
  return new Set(rows.map((row) => row.nodePort));
}

export async function releaseNodePorts(tx: Db, instance: string): Promise<void> {
  await tx.deleteFrom('nodePort').where('instanceId', '=', instance).execute();
}

export async function releaseNodePort(tx: Db, instance: string, nodePort: number): Promise<void> {
  await tx.deleteFrom('nodePort').where('instanceId', '=', instance).where('nodePort', '=', nodePort).execute();
}

/** Ids of instances with node ports, which include all that run, after `afterId`. */
export async function idsWithNodePorts(db: Db, afterId: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('nodePort')
    .select('instanceId')
    .where('instanceId', '>', afterId)
    .groupBy('instanceId')
    .orderBy('instanceId')
    .limit(limit)
    .execute();
  return rows.map(({ instanceId: id }) => id);
}
