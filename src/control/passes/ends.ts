/** Stops the instances whose time is over: the one that was set, or the longest they may run. A server that was away does it late. */
import { endedBy, endsAtMs } from '../../domain/ends.ts';
import { endedByClock } from '../../store/ends.ts';
import type { StopByItself } from '../actions.ts';
import type { DeedNeeds } from './deeds.ts';

const AT_ONCE = 200;

export async function stopDue({
  store,
  now,
  log,
  stopByItself,
}: Pick<DeedNeeds, 'store' | 'now' | 'log'> & { stopByItself: StopByItself }): Promise<void> {
  for (;;) {
    const due = await endedByClock(store.read, now(), AT_ONCE);
    let stopped = 0;
    await Promise.all(
      due.map(async (one) => {
        try {
          const did = await stopByItself(one, ({ ends, observed }, nowMs) => {
            const cause = endedBy(ends, observed, nowMs);
            return cause === null ? null : { cause, why: { dueAt: endsAtMs(ends, observed) } };
          });
          if (did) stopped += 1;
        } catch (error) {
          log.warn(
            { id: one.id, err: error },
            'an instance whose time is over could not be stopped; it is tried again',
          );
        }
      }),
    );
    if (due.length < AT_ONCE || stopped === 0) return;
  }
}
