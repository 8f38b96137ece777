/** States observed by tasks: a row while each lasts, written on change. */
import type { WatchTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

/** `seen`: last sweep of a region that answers; `unseen`: an instance unknown to the engine. */
export type WatchKind = 'seen' | 'unseen' | 'idle' | 'silent';

export interface Watch extends WatchTable {
  kind: WatchKind;
}

const AT_ONCE = 500;

const plain = { run: '', usedAtMs: null, willStopAtMs: null };

export async function saveWatches(tx: Db, watches: readonly Watch[]): Promise<void> {
  for (let from = 0; from < watches.length; from += AT_ONCE)
    await tx
      .insertInto('watch')
      .values(watches.slice(from, from + AT_ONCE))
      .onConflict((conflict) =>
        conflict.columns(['kind', 'subjectId']).doUpdateSet(({ ref }) => ({
          sinceMs: ref('excluded.sinceMs'),
          run: ref('excluded.run'),
          usedAtMs: ref('excluded.usedAtMs'),
          willStopAtMs: ref('excluded.willStopAtMs'),
        })),
      )
      .execute();
}

export async function dropWatches(tx: Db, kind: WatchKind, subjectIds: readonly string[]): Promise<void> {
  for (let from = 0; from < subjectIds.length; from += AT_ONCE)
    await tx
      .deleteFrom('watch')
      .where('kind', '=', kind)
      .where('subjectId', 'in', subjectIds.slice(from, from + AT_ONCE))
      .execute();
}

const ofKind = (db: Db, kind: WatchKind) => db.selectFrom('watch').where('watch.kind', '=', kind);

export const lastSweeps = async (db: Db) => ({
  seen: await ofKind(db, 'seen').selectAll().execute(),
  unseen: await ofKind(db, 'unseen').selectAll().execute(),
});

/** Rows of the process before; deletes those of regions without a sweep in the last `withinMs`. */
export async function takeOverWatches(
  tx: Db,
  kind: 'idle' | 'silent',
  { nowMs, withinMs }: { nowMs: number; withinMs: number },
) {
  const recent = ofKind(tx, 'seen')
    .select('subjectId')
    .where('sinceMs', '>=', nowMs - withinMs)
    .where('sinceMs', '<=', nowMs);
  await tx.deleteFrom('watch').where('kind', '=', kind).where('regionId', 'not in', recent).execute();
  return ofKind(tx, kind)
    .innerJoin('watch as sweep', 'sweep.subjectId', 'watch.regionId')
    .where('sweep.kind', '=', 'seen' satisfies WatchKind)
    .selectAll('watch')
    .select('sweep.sinceMs as seenAtMs')
    .execute();
}

export async function saveSweep(
  tx: Db,
  { regionId, seenAtMs, unseen }: { regionId: string; seenAtMs: number; unseen: ReadonlySet<string> },
): Promise<void> {
  const before = await ofKind(tx, 'unseen').select('subjectId as id').where('regionId', '=', regionId).execute();
  const known = new Set(before.map(({ id }) => id));
  const row = { ...plain, regionId, sinceMs: seenAtMs };
  const added = [...unseen].filter((id) => !known.has(id));
  await saveWatches(tx, [
    { ...row, kind: 'seen', subjectId: regionId },
    ...added.map((subjectId) => ({ ...row, kind: 'unseen' as const, subjectId })),
  ]);
  const gone = [...known].filter((id) => !unseen.has(id));
  await dropWatches(tx, 'unseen', gone);
}
