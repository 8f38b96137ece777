/** Observations for tests of `plan`, and instances at a moment. */
import { defaultLimits, type DesiredState } from '../../../src/domain/compute/instance-states.ts';
import type { Instance, Observed } from '../../../src/domain/compute/instance.ts';
import type { InstanceObservation } from '../../../src/domain/compute/plan.ts';
import { anInstance } from './instance-fixture.ts';

type Present = Extract<InstanceObservation, { kind: 'present' }>;

export const limits = defaultLimits;
export const now = 1_000_000_000_000;
export const running: Present = {
  kind: 'present',
  running: true,
  exitCode: null,
  outOfMemory: false,
  startedAtMs: now - 1_000,
};
export const ended: Present = {
  kind: 'present',
  running: false,
  exitCode: 1,
  outOfMemory: false,
  startedAtMs: now - 1_000,
};
/** End of `leaving`. */
export const endsAtMs = now + 20_000;
export const leaving: Present = { ...running, disruption: { text: 'the node is drained', graceMs: 20_000 } };
export const taken: Present = {
  ...ended,
  exitCode: null,
  startedAtMs: 0,
  disruption: { text: 'the node is drained', graceMs: 0 },
};
export const reserved: Present = { ...ended, reserved: true };
export const leftDocker: Present = { ...ended, docker: 'running' };
/** Of a cluster: its Pod waits for a node, its image or its disks. */
export const created: Present = { ...ended, exitCode: null, startedAtMs: 0 };
/** A Pod that waits for a node, its image or its disks. */
export const starting: Present = { ...created, reserved: true };
export const absent: InstanceObservation = { kind: 'absent' };
export const unknown: InstanceObservation = { kind: 'unknown', reason: 'no answer' };

export const at = (desired: DesiredState, observed: Partial<Observed>, more: Partial<Instance> = {}): Instance => {
  const base = anInstance({ requestedAtMs: now - 1_000, everEnsured: true, ...more, desired });
  return { ...base, observed: { ...base.observed, ...observed } };
};
