/** Deadlines of a start. Pure. */
import { deadlines, isLasting, phaseDeadlines, type Diagnosis, type Limits } from './instance-states.ts';
import type { Instance, Observed } from './instance.ts';

/** Null: the start is in time, or over. */
export function findOverdue(
  { observed, requestedAtMs }: Instance,
  nowMs: number,
  limits: Limits,
): { reason: Diagnosis; text: string } | null {
  if (isLasting(observed.status)) return null;
  const { limit, reason } = phaseDeadlines[observed.phase] ?? deadlines[observed.status];
  if (nowMs - countedFrom(requestedAtMs, observed) <= limits[limit]) return null;
  const waited = `still ${observed.status} (${observed.phase}) after ${Math.round(limits[limit] / 1000)} s`;
  // The last known cause says more than the wait.
  return observed.diagnosis === ''
    ? { reason, text: waited }
    : { reason: observed.diagnosis, text: `${observed.diagnosisMessage} (${waited})` };
}

export const countedFrom = (requestedAtMs: number, { countedFromMs }: Observed): number =>
  Math.max(requestedAtMs, countedFromMs);
