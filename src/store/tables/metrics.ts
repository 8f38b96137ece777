/** Figures of instances as they are kept: packed, so that there are few rows, and each is written once. */
import type { Db } from '../store.ts';

export interface MinutePart {
  atMs: number;
  part: number;
  body: Uint8Array;
}

export interface InstanceHour {
  instanceId: string;
  atMs: number;
  body: Uint8Array;
}

/** A minute that was written already is another one's of the same date, which was set back: it makes way. */
export async function writeMinute(tx: Db, parts: readonly MinutePart[]): Promise<void> {
  for (const part of parts)
    await tx
      .insertInto('metricMinute')
      .values(part)
      .onConflict((conflict) => conflict.columns(['atMs', 'part']).doUpdateSet({ body: part.body }))
      .execute();
}

/** From `fromMs` up to `toMs`, which is not in it, in order. */
export const minutesBetween = (db: Db, fromMs: number, toMs: number): Promise<MinutePart[]> =>
  db
    .selectFrom('metricMinute')
    .selectAll()
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', toMs)
    .orderBy('atMs')
    .orderBy('part')
    .execute();

/** One that is there was written whole. */
export async function writeHours(tx: Db, hours: readonly InstanceHour[]): Promise<void> {
  if (hours.length === 0) return;
  await tx
    .insertInto('metricHour')
    .values([...hours])
    .onConflict((conflict) => conflict.columns(['instanceId', 'atMs']).doNothing())
    .execute();
}

/** Of one instance, in order. */
export const hoursSince = (db: Db, instanceId: string, atMs: number): Promise<InstanceHour[]> =>
  db
    .selectFrom('metricHour')
    .selectAll()
    .where('instanceId', '=', instanceId)
    .where('atMs', '>=', atMs)
    .orderBy('atMs')
    .execute();

/** What is older than that, and all hours of instances that were terminated and are listed yet. */
export async function deleteMetricsBefore(tx: Db, before: { minutesMs: number; hoursMs: number }): Promise<void> {
  await tx.deleteFrom('metricMinute').where('atMs', '<', before.minutesMs).execute();
  await tx.deleteFrom('metricHour').where('atMs', '<', before.hoursMs).execute();
  await tx
    .deleteFrom('metricHour')
    .where('instanceId', 'in', (from) =>
      from.selectFrom('instance').select('id').where('listed', '=', 1).where('releasedAtMs', 'is not', null),
    )
    .execute();
}

/**
 * Instances of the region that say Running, whether or not a pass is due for them. By their node ports, which each has that runs, and
 * not by the table of all that ever were.
 */
export async function runningIds(db: Db, region: string): Promise<string[]> {
  const rows = await db
    .selectFrom('instance')
    .select('id')
    .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('regionId', '=', region))
    .where('status', '=', 'Running')
    .execute();
  return rows.map(({ id }) => id);
}

/** Those of the ids that are terminated. */
export async function releasedAmong(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('instance')
    .select('id')
    .where('id', 'in', ids)
    .where('desired', '=', 'released')
    .execute();
  return rows.map(({ id }) => id);
}
