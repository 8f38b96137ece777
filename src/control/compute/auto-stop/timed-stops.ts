/** Stops instances at the times of their rows. */
import type { Instance } from '../../../domain/compute/instance.ts';
import type { Cause } from '../../../domain/compute/operation.ts';
import { dueStopCause } from '../../../domain/compute/stop-policy.ts';
import { timedActs } from '../../../domain/compute/timed-acts.ts';
import type { ActHandler, StopAutomatically } from '../../kernel/ports.ts';

const stops = { stop: dueStopCause, reclaim: () => 'SpotReclaimed' } satisfies Record<
  string,
  (instance: Instance, nowMs: number) => Cause | null
>;

/** Stops an instance whose act is due, and says when one that is not will be. */
export const makeTimedStop =
  (kind: keyof typeof stops, stopAutomatically: StopAutomatically): ActHandler =>
  async (owned) => {
    let next: number | null = null;
    const isStopped = await stopAutomatically(owned, (instance, nowMs) => {
      next = timedActs(instance)[kind];
      const cause = next === null || next > nowMs ? null : stops[kind](instance, nowMs);
      return cause === null ? null : { cause, why: { dueAt: next } };
    });
    return isStopped ? null : next;
  };
