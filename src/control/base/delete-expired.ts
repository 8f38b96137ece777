/** Ends what has been kept long enough: released instances in the lists, answers of idempotency keys, events, past operations. */
import { deleteEventsBefore, bumpVersion } from '../../store/tables/events.ts';
import { deleteAnswersBefore } from '../../store/tables/idempotency.ts';
import { unlistReleased } from '../../store/tables/instances.ts';
import { deleteOperationsBefore } from '../../store/tables/operations.ts';
import type { Db } from '../../store/store.ts';
import type { TaskDeps } from './task-deps.ts';

/** docs/interface.md §10 and the common practice: a key is good for a day. */
const ANSWERS_KEPT_MS = 24 * 3_600_000;
const EVENTS_KEPT_MS = 30 * 24 * 3_600_000;
const TIDY_AT_ONCE = 500;

/** Takes released instances off the lists after their hour, forgets idempotency answers after their day, history after its days. */
export async function deleteExpired({
  store,
  now,
  releasedListedMs,
  eventsKeptMs = EVENTS_KEPT_MS,
}: Pick<TaskDeps, 'store' | 'now'> & { releasedListedMs: number; eventsKeptMs?: number | undefined }): Promise<void> {
  const unlist = async (tx: Db): Promise<number> => {
    const gone = await unlistReleased(tx, now() - releasedListedMs, TIDY_AT_ONCE);
    const byOwner = new Map<string, number>();
    for (const { ownerId } of gone) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + 1);
    const inOrder = [...byOwner].toSorted(([one], [other]) => (one < other ? -1 : 1));
    for (const [ownerId, count] of inOrder) await bumpVersion(tx, ownerId, { instances: -count });
    return gone.length;
  };
  const forget = (tx: Db): Promise<number> => deleteAnswersBefore(tx, now() - ANSWERS_KEPT_MS, TIDY_AT_ONCE);
  const events = (tx: Db): Promise<number> => deleteEventsBefore(tx, now() - eventsKeptMs, TIDY_AT_ONCE);
  const operations = (tx: Db): Promise<number> => deleteOperationsBefore(tx, now() - eventsKeptMs, TIDY_AT_ONCE);
  for (const some of [unlist, forget, events, operations]) while ((await store.write(some)) === TIDY_AT_ONCE);
}
