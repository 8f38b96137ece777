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
  /** Its control files are out of date: hand its engine the present ones. */
  | { do: 'refresh' }
  /** The container runs; ask its software, and keep asking. */
  | { do: 'checkReady'; show: Partial<Observed> }
  /** It is Running and its init script may have ended. */
  | { do: 'checkInit' }
  | { do: 'halt'; show: Partial<Observed> }
  | { do: 'destroy' }
  /** Only write down. */
  | { do: 'mark'; show: Partial<Observed>; attempts?: number; afterMs?: number }
  /** It came to rest as wished: capacity is freed. */
  | { do: 'stopped'; show: Partial<Observed> }
  /** Give the wish up: desired becomes stopped, capacity is freed. */
  | { do: 'giveUp'; show: Partial<Observed> };

/** Who ran this long before it ended by itself begins with a clean count of attempts. */
const STABLE_MS = 10 * 60_000;

export function plan(instance: Instance, seen: Seen, nowMs: number, limits: Limits): Step {
  const { desired, observed } = instance;
  if (seen.kind === 'unknown') {
    const afterMs = limits.askAgainMs;
    if (observed.diagnosis === 'EngineUnreachable' || lastingFailure(observed.status)) return { do: 'rest', afterMs };
    return { do: 'mark', show: diagnosed('EngineUnreachable', seen.reason), afterMs };
  }
  switch (desired) {
    case 'released':
      return seen.kind === 'absent' && observed.phase === 'Cleaned' ? { do: 'rest' } : { do: 'destroy' };
    case 'stopped':
      return planStopped(instance, seen);
    case 'running':
      return planRunning(instance, seen, nowMs, limits);
    default:
      return desired satisfies never;
  }
}

type Known = Exclude<Seen, { kind: 'unknown' }>;
type Present = Extract<Seen, { kind: 'present' }>;

function planStopped({ observed }: Instance, seen: Known): Step {
  if (seen.kind === 'present' && seen.running) {
    return { do: 'halt', show: lastingFailure(observed.status) ? {} : { phase: 'Stopping', ...diagnosed('', '') } };
  }
  if (lastingFailure(observed.status)) return { do: 'rest' };
  if (observed.status === 'Stopped')
    return observed.diagnosis === '' ? { do: 'rest' } : { do: 'mark', show: diagnosed('', '') };
  return {
    do: 'stopped',
    show: { status: 'Stopped', phase: 'Stopped', healthy: false, message: '', ...diagnosed('', '') },
  };
}

function planRunning(instance: Instance, seen: Known, nowMs: number, limits: Limits): Step {
  if (seen.kind === 'present' && seen.running) {
    if (instance.mustHalt) return { do: 'halt', show: {} };
    return planPresent(instance, seen, nowMs, limits);
  }
  const { observed } = instance;
  if (hadStarted(observed) && !instance.mustHalt) {
    if (seen.kind === 'absent')
      return startAgain(
        instance,
        'ContainerExited',
        'the container was removed from the engine',
        instance.attempts + 1,
        limits,
      );
    if (seen.exitCode !== null) {
      const attempts = nowMs - seen.startedAtMs > STABLE_MS ? 1 : instance.attempts + 1;
      const text = `the main process ended with exit code ${seen.exitCode}`;
      return startAgain(instance, seen.outOfMemory ? 'OutOfMemory' : 'ContainerExited', text, attempts, limits);
    }
  }
  return { do: 'ensure', show: { status: startingStatus(observed, seen), healthy: false } };
}

function startAgain(instance: Instance, reason: Diagnosis, text: string, attempts: number, limits: Limits): Step {
  if (attempts > limits.maxAttempts) return giveUp(instance, reason, text);
  const show = {
    status: 'Starting',
    phase: 'Queued',
    healthy: false,
    message: '',
    ...diagnosed(reason, text),
  } as const;
  return { do: 'mark', show, attempts, afterMs: backOffMs(attempts, limits) };
}

/** It runs, and is wished to. */
function planPresent(instance: Instance, seen: Present, nowMs: number, limits: Limits): Step {
  const { observed, spec } = instance;
  if (observed.phase === 'Ready' && observed.status === 'Running') {
    if (observed.diagnosis !== '') return { do: 'mark', show: diagnosed('', '') };
    if (instance.filesStale) return { do: 'refresh' };
    return spec.initScript.trim() !== '' && instance.initExit === null ? { do: 'checkInit' } : { do: 'rest' };
  }
  if (nowMs - Math.max(seen.startedAtMs, instance.wishedAtMs) > limits.readyDeadlineMs) {
    return giveUp(
      instance,
      'StartTimeout',
      `not ready ${limits.readyDeadlineMs / 1000} s after its start`,
      'StartingFailed',
    );
  }
  return {
    do: 'checkReady',
    show: { status: startingStatus(observed, seen), phase: 'WaitReady', ...diagnosed('', '') },
  };
}

const hadStarted = (observed: Observed): boolean => observed.phase === 'Ready' || observed.phase === 'WaitReady';

const lastingFailure = (status: InstanceStatus): boolean =>
  status === 'StartingFailed' || status === 'InitializationFailed';

/** What the status is called while it is brought up: a restart, and the time before the first container, have names of their own. */
function startingStatus({ status }: Observed, seen: Known): InstanceStatus {
  if (status === 'Restarting') return 'Restarting';
  return status === 'Initializing' && seen.kind === 'absent' ? 'Initializing' : 'Starting';
}

export const diagnosed = (
  diagnosis: Diagnosis,
  diagnosisMessage: string,
): Pick<Observed, 'diagnosis' | 'diagnosisMessage'> => ({
  diagnosis,
  diagnosisMessage,
});

/** The lasting failure; if not said otherwise, the one that fits how far it had come. */
export function giveUp(
  { everEnsured, observed }: Pick<Instance, 'everEnsured' | 'observed'>,
  diagnosis: Diagnosis,
  text: string,
  status: InstanceStatus = everEnsured && observed.status !== 'Initializing'
    ? 'StartingFailed'
    : 'InitializationFailed',
): Step {
  const phase: Phase = 'Failed';
  return { do: 'giveUp', show: { status, phase, healthy: false, message: '', ...diagnosed(diagnosis, text) } };
}
