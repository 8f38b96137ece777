import { sql } from 'kysely';
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

/** Returns false if a minute of the same date was replaced: the clock was set back. */
export async function writeMinute(tx: Db, { atMs, part, body }: MinutePart): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('metricMinute')
    .values({ atMs, part, body })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows === 1n) return true;
  await tx.updateTable('metricMinute').set({ body }).where('atMs', '=', atMs).where('part', '=', part).execute();
  return false;
}

export const minutesBetween = (db: Db, fromMs: number, toMs: number): Promise<MinutePart[]> =>
  db
    .selectFrom('metricMinute')
    .selectAll()
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', toMs)
    .orderBy('atMs')
    .orderBy('part')
    .execute();

/** An existing hour is complete and stays. */
export async function writeHours(tx: Db, hours: readonly InstanceHour[]): Promise<void> {
  if (hours.length === 0) return;
  await tx
    .insertInto('metricHour')
    .values([...hours])
    .onConflict((conflict) => conflict.columns(['instanceId', 'atMs']).doNothing())
    .execute();
}

/** Hours of instances, by time. */
export const hoursSince = async (db: Db, ids: readonly string[], atMs: number): Promise<InstanceHour[]> =>
  ids.length === 0
    ? []
    : db
        .selectFrom('metricHour')
        .selectAll()
        .where('instanceId', 'in', ids)
        .where('atMs', '>=', atMs)
        .orderBy('atMs')
        .execute();

/** Deletes old samples, and all hours of terminated instances still listed. */
export async function deleteMetricsBefore(tx: Db, before: { minutesMs: number; hoursMs: number }): Promise<void> {
  await tx.deleteFrom('metricMinute').where('atMs', '<', before.minutesMs).execute();
  await tx.deleteFrom('metricHour').where('atMs', '<', before.hoursMs).execute();
  await tx
    .deleteFrom('metricHour')
    .where('instanceId', 'in', (from) =>
      from.selectFrom('instance').select('id').where('listed', '=', sql.lit(1)).where('releasedAtMs', 'is not', null),
    )
    .execute();
}
