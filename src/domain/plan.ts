/**
 * The next step of an instance, from its row, from what the engine was seen to hold, and from the time: pure, so that every
 * pair can be tried. A step is one deed; the pass does it, writes down what came of it, and asks again.
 */
import { backOffMs, type Diagnosis, type InstanceStatus, type Limits, type Phase } from './instance-states.ts';
import type { Instance, Observed } from './instance.ts';

/** What was seen of the container. The engine's `Observation`, plus whether its software answers. */
export type Seen =
  | { kind: 'unknown'; reason: string }
  | { kind: 'absent' }
  | { kind: 'present'; running: boolean; exitCode: number | null; outOfMemory: boolean; startedAtMs: number };

export type Step =
  /** Nothing to do until something changes, or until `afterMs` have passed. */
  | { do: 'rest'; afterMs?: number }
  /** Image, disks, container, in this order; then see whether it is ready. */
  | { do: 'ensure'; show: Partial<Observed> }
  /** The container runs; ask its software, and keep asking. */
  | { do: 'checkReady'; show: Partial<Observed> }
  | { do: 'halt'; show: Partial<Observed> }
  | { do: 'destroy' }
  /** Only write down. */
  | { do: 'mark'; show: Partial<Observed>; afterMs?: number }
  /** Give the wish up: desired becomes stopped, capacity is freed. */
  | { do: 'giveUp'; show: Partial<Observed> };

export function plan(instance: Instance, seen: Seen, nowMs: number, limits: Limits): Step {
  const { desired, observed } = instance;
  if (seen.kind === 'unknown') {
    const show = diagnosed('EngineUnreachable', seen.reason);
    return observed.diagnosis === 'EngineUnreachable' ? { do: 'rest', afterMs: 2_000 } : { do: 'mark', show, afterMs: 2_000 };
  }
  switch (desired) {
    case 'released':
      if (seen.kind === 'absent' && observed.phase === 'Cleaned') return { do: 'rest' };
      return { do: 'destroy' };
    case 'stopped':
      return planStopped(instance, seen);
    case 'running':
      return planRunning(instance, seen, nowMs, limits);
    default:
      return desired satisfies never;
  }
}

type Known = Exclude<Seen, { kind: 'unknown' }>;

function planStopped({ observed }: Instance, seen: Known): Step {
  if (seen.kind === 'present' && seen.running) {
    return { do: 'halt', show: lastingFailure(observed.status) ? {} : { phase: 'Stopping', ...diagnosed('', '') } };
  }
  if (lastingFailure(observed.status) || observed.status === 'Stopped') return { do: 'rest' };
  return { do: 'mark', show: { status: 'Stopped', phase: 'Stopped', healthy: false, message: '', ...diagnosed('', '') } };
}

function planRunning(instance: Instance, seen: Known, nowMs: number, limits: Limits): Step {
  const { observed } = instance;
  if (instance.mustHalt && seen.kind === 'present' && seen.running) return { do: 'halt', show: { phase: 'Stopping' } };
  if (seen.kind === 'present' && seen.running) {
    if (observed.phase === 'Ready' && observed.status === 'Running') {
      return observed.diagnosis === '' ? { do: 'rest' } : { do: 'mark', show: diagnosed('', '') };
    }
    if (nowMs - Math.max(seen.startedAtMs, instance.wishedAtMs) > limits.readyDeadlineMs) {
      return giveUp(instance, 'StartTimeout', `not ready ${limits.readyDeadlineMs / 1000} s after its start`);
    }
    return { do: 'checkReady', show: { status: startingStatus(instance), phase: 'WaitReady' } };
  }
  const ended = seen.kind === 'present' && seen.exitCode !== null && !instance.mustHalt && hadStarted(observed);
  if (ended && observed.diagnosis !== 'ContainerExited' && observed.diagnosis !== 'OutOfMemory') {
    const reason: Diagnosis = seen.outOfMemory ? 'OutOfMemory' : 'ContainerExited';
    const text = `the main process ended with exit code ${seen.exitCode}`;
    if (instance.attempts >= limits.maxAttempts) return giveUp(instance, reason, text);
    const show = { status: 'Starting', phase: 'Queued', healthy: false, ...diagnosed(reason, text) } as const;
    return { do: 'mark', show, afterMs: backOffMs(instance.attempts + 1, limits) };
  }
  return { do: 'ensure', show: { status: startingStatus(instance), healthy: false } };
}

const hadStarted = (observed: Observed): boolean => observed.phase === 'Ready' || observed.phase === 'WaitReady';

const lastingFailure = (status: InstanceStatus): boolean =>
  status === 'StartingFailed' || status === 'InitializationFailed';

/** What the status is called while it is brought up: the first launch, a restart and a start have names of their own. */
function startingStatus({ observed, everEnsured }: Instance): InstanceStatus {
  if (observed.status === 'Restarting') return 'Restarting';
  return everEnsured || observed.status !== 'Initializing' ? 'Starting' : 'Initializing';
}

export const diagnosed = (diagnosis: Diagnosis, diagnosisMessage: string): Pick<Observed, 'diagnosis' | 'diagnosisMessage'> => ({
  diagnosis,
  diagnosisMessage,
});

/** The lasting failure that fits how far it had come. */
export function giveUp(instance: Pick<Instance, 'everEnsured'>, diagnosis: Diagnosis, text: string): Step {
  const status: InstanceStatus = instance.everEnsured ? 'StartingFailed' : 'InitializationFailed';
  const phase: Phase = 'Failed';
  return { do: 'giveUp', show: { status, phase, healthy: false, message: '', ...diagnosed(diagnosis, text) } };
}
