/** What ends instances by itself, in the store: written beside passes and wishes, and found by indexes that hold only those that end. */
import type { Region } from '../domain/catalog.ts';
import { endsAtMs } from '../domain/ends.ts';
import type { Instance } from '../domain/instance.ts';
import { publicInstance } from '../domain/public-instance.ts';
import type { Db } from './store.ts';

/** The columns that say what ends it, and all that is made of `ends`; idleness is watched while it runs and is to. */
export const endsColumns = (instance: Instance, region: Region) => ({
  ends: JSON.stringify(instance.ends),
  endsAtMs: instance.desired === 'running' ? endsAtMs(instance.ends, instance.observed) : null,
  idleAfterMs:
    instance.desired === 'running' && instance.observed.status === 'Running'
      ? (instance.ends.idle?.afterMs ?? null)
      : null,
  publicText: JSON.stringify(publicInstance(instance, region)),
});

/** Writes what ends an instance over a row that is held. No wish moves: a pass under way goes on. */
export async function writeEnds(tx: Db, instance: Instance, region: Region): Promise<void> {
  await tx.updateTable('instance').set(endsColumns(instance, region)).where('id', '=', instance.id).execute();
}

/** Instances whose time is over, the longest overdue first. */
export const endedByClock = (db: Db, nowMs: number, limit: number): Promise<{ id: string; ownerId: string }[]> =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('endsAtMs', '<=', nowMs)
    .orderBy('endsAtMs')
    .limit(limit)
    .execute();

/** Ids of the running instances that idleness stops. */
export async function idsToWatch(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('instance').select('id').where('idleAfterMs', 'is not', null).execute();
  return rows.map(({ id }) => id);
}
