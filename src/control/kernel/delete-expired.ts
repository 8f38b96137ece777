/** Deletes expired data: released instances (first from lists), answers, events, operations. */
import { deleteEventsBefore, bumpVersion } from '../../store/tables/events.ts';
import { deleteAnswersBefore } from '../../store/tables/idempotency.ts';
import { deleteReleased, unlistReleased } from '../../store/tables/instances.ts';
import { deleteOperationsBefore } from '../../store/tables/operations.ts';
import type { Db } from '../../store/store.ts';
import type { TaskDeps } from './deps.ts';

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

export async function deleteExpired(deps: ExpireDeps): Promise<void> {
  const { store, time, eventRetentionMs = EVENTS_RETAINED_MS, releasedListedMs = RELEASED_LISTED_MS } = deps;
  const unlist = async (tx: Db): Promise<number> => {
    const released = await unlistReleased(tx, time.now() - releasedListedMs, BATCH);
    const byOwner = new Map<string, number>();
    for (const { ownerId } of released) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + 1);
    const inOrder = [...byOwner].toSorted(([one], [other]) => (one < other ? -1 : 1));
    for (const [ownerId, count] of inOrder) await bumpVersion(tx, ownerId, { instances: -count });
    return released.length;
  };
  const deleteAnswers = (tx: Db): Promise<number> => deleteAnswersBefore(tx, time.now() - ANSWERS_RETAINED_MS, BATCH);
  const events = (tx: Db): Promise<number> => deleteEventsBefore(tx, time.now() - eventRetentionMs, BATCH);
  const operations = (tx: Db): Promise<number> => deleteOperationsBefore(tx, time.now() - eventRetentionMs, BATCH);
  const releasedRetainedMs = Math.max(eventRetentionMs, RELEASED_RETAINED_MS);
  const released = (tx: Db): Promise<number> => deleteReleased(tx, time.now() - releasedRetainedMs, BATCH);
  for (const some of [unlist, deleteAnswers, events, operations, released]) while ((await store.write(some)) === BATCH);
}
