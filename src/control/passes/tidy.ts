/** Ends what has been kept long enough: released instances in the lists, answers of idempotency keys. */
import { moveVersion } from '../../store/events.ts';
import { forgetAnswers } from '../../store/idempotency.ts';
import { unlistReleased } from '../../store/instances.ts';
import type { Db } from '../../store/store.ts';
import type { DeedNeeds } from './deeds.ts';

/** interface-notes.md and the common practice: a key is good for a day. */
const ANSWERS_KEPT_MS = 24 * 3_600_000;
const TIDY_AT_ONCE = 500;

/** Takes released instances off the lists after their hour, and forgets idempotency answers after their day. */
export async function tidy({
  store,
  now,
  releasedListedMs,
}: Pick<DeedNeeds, 'store' | 'now'> & { releasedListedMs: number }): Promise<void> {
  const unlist = async (tx: Db): Promise<number> => {
    const gone = await unlistReleased(tx, now() - releasedListedMs, TIDY_AT_ONCE);
    const byOwner = new Map<string, number>();
    for (const { ownerId } of gone) byOwner.set(ownerId, (byOwner.get(ownerId) ?? 0) + 1);
    for (const [ownerId, count] of byOwner) await moveVersion(tx, ownerId, { instances: -count });
    return gone.length;
  };
  const forget = (tx: Db): Promise<number> => forgetAnswers(tx, now() - ANSWERS_KEPT_MS, TIDY_AT_ONCE);
  for (const some of [unlist, forget]) while ((await store.write(some)) === TIDY_AT_ONCE);
}
