/** The acts that an instance has, and when: a pure function of its row. */
import type { Instance } from './instance.ts';
import { resumesAfter } from './resume.ts';
import { stopDueAtMs } from './stop-policy.ts';

export const instanceActs = ['stop', 'reclaim', 'resume', 'window'] as const;
export type InstanceAct = (typeof instanceActs)[number];

/** Null: no such act. Handlers of `resume` and `window` know the windows, and put the acts off. */
export const timedActs = (instance: Instance): Record<InstanceAct, number | null> => ({
  stop: stopDueAtMs(instance),
  reclaim: instance.desired === 'running' ? instance.reclaimAtMs : null,
  resume: resumesAfter(instance) === null ? null : instance.observed.stoppedAtMs,
  window: instance.desired === 'running' && instance.spec.chargeMode === 'tidePerHour' ? instance.requestedAtMs : null,
});

export const isSameAct = (kind: InstanceAct, before: Instance, after: Instance): boolean =>
  timedActs(before)[kind] === timedActs(after)[kind] &&
  (kind !== 'window' || (before.notBeforeMs === after.notBeforeMs && isQueued(before) === isQueued(after)));

const isQueued = ({ waitsSinceMs }: Instance): boolean => waitsSinceMs !== null;
