/** Deletes expired data: released instances (first from lists), answers, events, operations. */
import { insertAct } from '../../store/tables/due-acts.ts';
import { deleteEventsBefore, bumpVersion } from '../../store/tables/events.ts';
import { deleteAnswersBefore } from '../../store/tables/idempotency.ts';
import { deleteReleased, unlistReleased } from '../../store/tables/instances.ts';
import { deleteOperationsBefore } from '../../store/tables/operations.ts';
import type { Db } from '../../store/store.ts';
import type { TaskDeps } from './deps.ts';
import type { ActHandler } from './due-work.ts';

/** A key is valid for a day (docs/interface.md §10). */
const ANSWERS_RETAINED_MS = 24 * 3_600_000;
const EVENTS_RETAINED_MS = 30 * 24 * 3_600_000;
const RELEASED_LISTED_MS = 3_600_000;
/** A budget of a label counts the released instances of its month. */
const RELEASED_RETAINED_MS = 62 * 24 * 3_600_000;
const BATCH = 500;

interface ExpireDeps extends Pick<TaskDeps, 'store' | 'time'> {
  eventRetentionMs?: number | undefined;
  releasedListedMs?: number;
}

const AGAIN_MS = 60_000;
/** Subjects of the acts. */
export const retained = ['listed', 'idempotency', 'event', 'operation', 'instance'] as const;

export function makeRetention(deps: ExpireDeps) {
  const { store, time, eventRetentionMs = EVENTS_RETAINED_MS, releasedListedMs = RELEASED_LISTED_MS } = deps;
  const releasedRetainedMs = Math.max(eventRetentionMs, RELEASED_RETAINED_MS);
  const before = (ms: number): number => time.now() - ms;
  const deletions: Readonly<Record<(typeof retained)[number], (tx: Db) => Promise<number>>> = {
    listed: (tx) => unlist(tx, before(releasedListedMs)),
    idempotency: (tx) => deleteAnswersBefore(tx, before(ANSWERS_RETAINED_MS), BATCH),
    event: (tx) => deleteEventsBefore(tx, before(eventRetentionMs), BATCH),
    operation: (tx) => deleteOperationsBefore(tx, before(eventRetentionMs), BATCH),
    instance: (tx) => deleteReleased(tx, before(releasedRetainedMs), BATCH),
  };
  const handler: ActHandler = async ({ id }) => {
    const table = retained.find((known) => known === id);
    if (!table) return null;
    while ((await store.write(deletions[table])) === BATCH);
    return time.now() + AGAIN_MS;
  };
  const insert = (): Promise<void> =>
    store.write(async (tx) => {
      for (const subjectId of retained) await insertAct(tx, { kind: 'retention', subjectId, ownerId: '', dueAtMs: 0 });
    });
  return { handler, insert };
}

async function unlist(tx: Db, releasedBeforeMs: number): Promise<number> {
  const released = await unlistReleased(tx, releasedBeforeMs, BATCH);
  const byOwner = new Map<string, number>();
  for (const { ownerId } of released) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + 1);
  const inOrder = [...byOwner].toSorted(([one], [other]) => (one < other ? -1 : 1));
  for (const [ownerId, count] of inOrder) await bumpVersion(tx, ownerId, { instances: -count });
  return released.length;
}
