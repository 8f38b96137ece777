/** Strays, and what the intents say of the objects that an engine holds. */
import type { Selectable } from 'kysely';
import type { Archive } from '../domain/instance.ts';
import {
  isConfirmed,
  strayHandlings,
  strayKinds,
  watchedOn,
  type Stray,
  type StrayHandling,
  type StrayKind,
} from '../domain/stray.ts';
import type { StrayTable } from './schema.ts';
import type { Db } from './store.ts';

/** What a row says of the container of its id. */
export interface Intent {
  id: string;
  desired: string;
  status: string;
  /** No pass is due for it, and none works on it. */
  idle: boolean;
  /** Of its archive, and of all that is still to be removed: what that replaced, and what was asked for and never finished. */
  keptRefs: string[];
}

/** Those of the ids that were ever wished, released ones among them. */
export async function intentsAmong(db: Db, ids: readonly string[]): Promise<Intent[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('instance')
    .select(['id', 'desired', 'status', 'dueAtMs', 'archive', 'unfinished'])
    .where('id', 'in', ids)
    .execute();
  return rows.map(({ dueAtMs, archive, unfinished, ...row }) => {
    const kept: Archive | null = archive === null ? null : JSON.parse(archive);
    const open: string[] = JSON.parse(unfinished);
    const keptRefs = kept === null ? open : [kept.ref, ...kept.replaces, ...open];
    return { ...row, idle: dueAtMs === null, keptRefs };
  });
}

/** Those of the accounts that have an instance which is not wholly gone. */
export async function ownersAmong(db: Db, ownerIds: readonly string[]): Promise<Set<string>> {
  if (ownerIds.length === 0) return new Set();
  const rows = await db
    .selectFrom('instance')
    .select('ownerId')
    .distinct()
    .where('ownerId', 'in', ownerIds)
    .where((where) => where.or([where('desired', '!=', 'released'), where('dueAtMs', 'is not', null)]))
    .execute();
  return new Set(rows.map(({ ownerId }) => ownerId));
}

/** Refs of images in the catalog that have one of these names or were saved from one of these instances. */
export async function imageRefsAmong(
  db: Db,
  { refs, instanceIds }: { refs: readonly string[]; instanceIds: readonly string[] },
): Promise<string[]> {
  if (refs.length === 0) return [];
  // Two questions, each with an index of its own: one that asks for either would read the whole table.
  const images = db.selectFrom('image').select('ref');
  const named = await images.where('ref', 'in', refs).execute();
  const saved = await images.where('fromInstanceId', 'in', instanceIds).execute();
  return [...named, ...saved].map(({ ref }) => ref);
}

const isKind = (text: string): text is StrayKind => strayKinds.some((kind) => kind === text);
const isHandling = (text: string): text is StrayHandling => strayHandlings.some((handling) => handling === text);

function strayFromRow({ kind, handling, running, ...row }: Selectable<StrayTable>): Stray {
  if (!isKind(kind) || !isHandling(handling)) throw new Error(`stray ${row.id}: unknown ${kind} or ${handling}`);
  return { ...row, kind, handling, running: running === 1 };
}

const rowOf = (stray: Stray): Selectable<StrayTable> => ({ ...stray, running: stray.running ? 1 : 0 });

/** All that stand in the table for a region, those that were seen only once among them. */
export async function straysOf(db: Db, regionId: string): Promise<Stray[]> {
  const rows = await db.selectFrom('stray').selectAll().where('regionId', '=', regionId).orderBy('id').execute();
  return rows.map(strayFromRow);
}

/** Those that count, of all regions, with the name of the account on their label; '' when there is none. */
export async function confirmedStrays(db: Db): Promise<{ stray: Stray; ownerName: string }[]> {
  const rows = await db
    .selectFrom('stray')
    .leftJoin('account', 'account.id', 'stray.ownerId')
    .selectAll('stray')
    .select('account.username as ownerName')
    .where('watchedMs', '>', 0)
    .orderBy('firstSeenAtMs')
    .orderBy('stray.id')
    .execute();
  return rows.map(({ ownerName, ...row }) => ({ stray: strayFromRow(row), ownerName: ownerName ?? '' }));
}

export async function strayById(db: Db, id: string): Promise<Stray | undefined> {
  const row = await db.selectFrom('stray').selectAll().where('id', '=', id).executeTakeFirst();
  return row && strayFromRow(row);
}

export type Sighting = Omit<Stray, 'firstSeenAtMs' | 'lastSeenAtMs' | 'watchedMs' | 'handling' | 'note'>;

const AT_ONCE = 50;

/** Brings the table to what was seen now of these kinds in the whole region. Answers those that were seen for the second time. */
export async function seeStrays(
  tx: Db,
  { regionId, kinds }: { regionId: string; kinds: readonly StrayKind[] },
  found: readonly Sighting[],
  nowMs: number,
): Promise<Stray[]> {
  const seen = found.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const known = (await straysOf(tx, regionId)).filter(({ kind }) => kinds.includes(kind));
  const before = new Map(known.map((stray) => [stray.id, stray]));
  // What bears the name of one that was seen and was made at another time is another.
  const same = (one: Sighting): Stray | undefined => {
    const was = before.get(one.id);
    return was?.createdAtMs === one.createdAtMs ? was : undefined;
  };
  const stay = new Set(seen.filter(same).map(({ id }) => id));
  await forgetStrays(
    tx,
    [...before.keys()].filter((id) => !stay.has(id)),
  );
  const fresh = seen.filter((one) => !same(one));
  for (let from = 0; from < fresh.length; from += AT_ONCE) {
    const rows = fresh
      .slice(from, from + AT_ONCE)
      .map((one) =>
        rowOf({ ...one, firstSeenAtMs: nowMs, lastSeenAtMs: nowMs, watchedMs: 0, handling: 'policy', note: '' }),
      );
    await tx
      .insertInto('stray')
      .values(rows)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
  const confirmed: Stray[] = [];
  for (const one of seen) {
    const was = same(one);
    if (!was) continue;
    const watchedMs = watchedOn(was, nowMs);
    await tx
      .updateTable('stray')
      .set({ running: one.running ? 1 : 0, lastSeenAtMs: nowMs, watchedMs })
      .where('id', '=', one.id)
      .execute();
    if (!isConfirmed(was)) confirmed.push({ ...was, ...one, lastSeenAtMs: nowMs, watchedMs });
  }
  return confirmed;
}

/** Says what is to be done with it, if that is still `from`; false when it is not, or the stray is none any more. */
export async function handStray(
  tx: Db,
  id: string,
  change: { from: readonly StrayHandling[]; to: StrayHandling; note: string },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('stray')
    .set({ handling: change.to, note: change.note })
    .where('id', '=', id)
    .where('handling', 'in', change.from)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** What became of a try. */
export async function noteStray(tx: Db, id: string, note: string): Promise<void> {
  await tx.updateTable('stray').set({ note }).where('id', '=', id).execute();
}

/** Takes it off the table unless it is being deleted: true for one caller only. */
export async function takeStray(tx: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('stray')
    .where('id', '=', id)
    .where('handling', '!=', 'delete')
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

const FORGET_AT_ONCE = 500;

export async function forgetStrays(tx: Db, ids: readonly string[]): Promise<void> {
  for (let from = 0; from < ids.length; from += FORGET_AT_ONCE)
    await tx
      .deleteFrom('stray')
      .where('id', 'in', ids.slice(from, from + FORGET_AT_ONCE))
      .execute();
}
