/** The acts that an instance has, and when: a pure function of its row. */
import type { Instance } from './instance.ts';
import { resumesAfter } from './resume.ts';
import { stopDueAtMs } from './stop-policy.ts';

export const instanceActs = ['stop', 'reclaim', 'resume', 'window', 'saveRootDisk'] as const;
export type InstanceAct = (typeof instanceActs)[number];

/** Begin of the rest that ends in an archive. A failed one is not repeated. */
function savesRootDiskFromMs({ desired, rootDisk, observed, operation: { kind, state } }: Instance): number | null {
  const isAtRest = observed.status === 'Stopped' || observed.status === 'StartingFailed';
  const hasFailed = kind === 'archive' && state === 'Failed';
  return desired === 'stopped' && rootDisk === 'kept' && isAtRest && !hasFailed ? observed.stoppedAtMs : null;
}

/** Null: no such act. Handlers that know more put acts off. */
export const timedActs = (instance: Instance): Record<InstanceAct, number | null> => ({
  stop: stopDueAtMs(instance),
  reclaim: instance.desired === 'running' ? instance.reclaimAtMs : null,
  resume: resumesAfter(instance) === null ? null : instance.observed.stoppedAtMs,
  saveRootDisk: savesRootDiskFromMs(instance),
  window: instance.desired === 'running' && instance.spec.chargeMode === 'tidePerHour' ? instance.requestedAtMs : null,
});

export const isSameAct = (kind: InstanceAct, before: Instance, after: Instance): boolean =>
  timedActs(before)[kind] === timedActs(after)[kind] &&
  (kind !== 'window' || (before.notBeforeMs === after.notBeforeMs && isQueued(before) === isQueued(after)));

const isQueued = ({ waitsSinceMs }: Instance): boolean => waitsSinceMs !== null;
