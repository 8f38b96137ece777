import { dueStopCause, stopDueAtMs } from '../../domain/stop-policy.ts';
import { overdueInstances, type Overdue } from '../../store/tables/instance-queries.ts';
import type { StopAutomatically } from '../instances/actions.ts';
import type { TaskDeps } from '../base/deps.ts';

const AT_ONCE = 200;

interface StopDueDeps extends Pick<TaskDeps, 'store' | 'now' | 'log'> {
  stopAutomatically: StopAutomatically;
}

/** Each run visits all overdue instances, so one that can't be stopped delays no other. */
export function makeStopDue({ store, now, log, stopAutomatically }: StopDueDeps): () => Promise<void> {
  /** Errors of the last run by instance: an error is logged once, not every second. */
  let failed = new Map<string, string>();

  async function stop(overdue: Overdue, failing: Map<string, string>): Promise<void> {
    try {
      await stopAutomatically(overdue, (instance, nowMs) => {
        const cause = dueStopCause(instance, nowMs);
        return cause === null ? null : { cause, why: { dueAt: stopDueAtMs(instance) } };
      });
    } catch (error) {
      const why = String(error);
      failing.set(overdue.id, why);
      if (failed.get(overdue.id) === why) return;
      log.warn(
        { id: overdue.id, err: error },
        'an instance whose time is over could not be stopped; it is tried again',
      );
    }
  }

  return async () => {
    const nowMs = now();
    const failing = new Map<string, string>();
    let last: Overdue | undefined;
    for (;;) {
      const due = await overdueInstances(store.read, nowMs, last ?? null, AT_ONCE);
      await Promise.all(due.map((overdue) => stop(overdue, failing)));
      last = due.at(-1);
      if (due.length < AT_ONCE) break;
    }
    failed = failing;
  };
}
