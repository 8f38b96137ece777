import { withoutPastStop } from './stop-policy.ts';
import { nextStatus, type Action } from './instance-states.ts';
import type { Instance } from './instance.ts';
import { beginOperation, type Cause } from './operation.ts';

/** Throws if the action is illegal (`refusalOfAction`) and `transitions` has no such event. */
export function applyAction(action: Action, instance: Instance, nowMs: number, cause: Cause = 'user'): Instance {
  const { observed } = instance;
  const next = {
    ...instance,
    generation: instance.generation + 1,
    requestedAtMs: nowMs,
    attempts: 0,
    waitsSinceMs: null,
    waitsUntilMs: null,
    operation: beginOperation(action, cause, nowMs),
  };
  const cleared = {
    ...observed,
    diagnosis: '',
    diagnosisMessage: '',
    message: '',
    countedFromMs: 0,
    progress: null,
    sshFront: false,
  } as const;
  switch (action) {
    case 'stop':
      return { ...next, desired: 'stopped', mustHalt: false, observed: { ...cleared, phase: 'Stopping' } };
    case 'start':
      return {
        ...next,
        desired: 'running',
        mustHalt: false,
        stopPolicy: withoutPastStop(instance.stopPolicy, nowMs),
        observed: {
          ...cleared,
          status: nextStatus(observed.status, hadContainer(instance) ? 'start' : 'relaunch'),
          phase: 'Queued',
          stoppedAtMs: 0,
        },
      };
    case 'restart':
      return {
        ...next,
        desired: 'running',
        mustHalt: true,
        observed: {
          ...cleared,
          status: nextStatus(observed.status, 'restart'),
          phase: 'Stopping',
          healthy: false,
          runningSinceMs: 0,
        },
      };
    case 'archive':
      return {
        ...next,
        desired: 'archived',
        mustHalt: false,
        observed: { ...cleared, phase: observed.status === 'Running' ? 'Stopping' : 'Archiving' },
      };
    case 'terminate':
      return {
        ...next,
        desired: 'released',
        mustHalt: false,
        observed: {
          ...cleared,
          status: nextStatus(observed.status, 'terminate'),
          phase: 'Cleaning',
          healthy: false,
          runningSinceMs: 0,
          stoppedAtMs: observed.stoppedAtMs || nowMs,
        },
      };
    default:
      return action satisfies never;
  }
}

const hadContainer = ({ everEnsured, observed }: Instance): boolean =>
  (everEnsured && observed.status !== 'InitializationFailed') || observed.status === 'Archived';
