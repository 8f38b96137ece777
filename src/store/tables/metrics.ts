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

/** Replaces a minute of the same date: the clock was set back. */
export async function writeMinute(tx: Db, parts: readonly MinutePart[]): Promise<void> {
  for (const part of parts)
    await tx
      .insertInto('metricMinute')
      .values(part)
      .onConflict((conflict) => conflict.columns(['atMs', 'part']).doUpdateSet({ body: part.body }))
      .execute();
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
