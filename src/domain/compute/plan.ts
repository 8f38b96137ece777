/**
 * Pure: plans an instance's next step from row, observation and time. The reconciler does the step,
 * writes the result and plans again.
 */
import { isExpanding, lostRootDiskText } from './desired-state.ts';
import { diskStopCauses } from '../storage/disk-growth.ts';
import type { Disruption } from './disruption.ts';
import type { Cause } from './operation.ts';
import {
  nextStatus,
  backOffMs,
  diagnoses,
  isLasting,
  permanentReason,
  type Diagnosis,
  type InstanceStatus,
  type Limits,
  type StatusEvent,
} from './instance-states.ts';
import {
  isInUse,
  lostGpuOf,
  memoryKillsOf,
  type Instance,
  type MemoryKills,
  type Observed,
  type RootDiskState,
} from './instance.ts';
import { countedFrom, findOverdue } from './start-deadlines.ts';
import { endingSince, reasonOfRequest } from './start-outcomes.ts';

/** The engine's `Observation` of the container, plus whether its software answers. */
export type InstanceObservation =
  | { kind: 'unknown'; reason: string }
  | { kind: 'absent' }
  | {
      kind: 'present';
      running: boolean;
      exitCode: number | null;
      outOfMemory: boolean;
      startedAtMs: number;
      docker?: 'running' | 'stopped';
      disruption?: Disruption;
      reserved?: true;
      /** Absent: not asked. */
      answers?: boolean;
      /** Time of a reading by which it lacks a GPU; null: it has all; absent: not known. */
      gpuLostAtMs?: number | null;
      /** Absent: not known. */
      memoryKills?: Omit<MemoryKills, 'runStartedAtMs'>;
      /** The notebook server differs from the row. */
      notebookDiffers?: true;
    };

export type Step =
  /** Nothing to do until a change, or for `afterMs`. */
  | { do: 'rest'; afterMs?: number }
  | { do: 'awaitWindow' }
  | { do: 'acquireCapacity' }
  /** Image, disks, container, in this order; then check readiness. */
  | { do: 'ensure'; show: Partial<Observed> }
  /** The engine takes the capacity of a spot instance: announce the stop at `atMs`. */
  | { do: 'announceReclaim'; atMs: number; reason: string; show: Partial<Observed> }
  /** Request a stop because of the run. */
  | { do: 'stop'; cause: Cause; why: object; show: Partial<Observed> }
  /** Stale control files or a stopped Docker sidecar: pass the current spec to the engine. */
  | { do: 'refresh' }
  | { do: 'grow' }
  /** `startedAtMs`: of the run that is checked. */
  | { do: 'checkReady'; show: Partial<Observed>; startedAtMs: number }
  /** Ends of scripts, and the state of the notebook server. */
  | { do: 'checkReports' }
  /** The run costs less from `sinceMs` on. */
  | { do: 'loseGpu'; sinceMs: number; show: Partial<Observed> }
  /** More processes were killed for want of memory. */
  | { do: 'reportKills'; count: number; atMs: number }
  | { do: 'halt'; show: Partial<Observed>; graceMs: number }
  | { do: 'saveRoot' }
  /** Remove the container whose root disk is saved. */
  | { do: 'removeSaved' }
  | { do: 'removeUnfinished' }
  | { do: 'destroy' }
  /** `backOffMs`: an event of the engine does not shorten the pause before the next attempt. */
  | {
      do: 'mark';
      show: Partial<Observed>;
      attempts?: number;
      afterMs?: number;
      backOffMs?: number;
      rootDisk?: RootDiskState;
    }
  | { do: 'loseRootDisk'; show: Partial<Observed> }
  /** Reached the desired state; frees the capacity. */
  | { do: 'settle'; show: Partial<Observed> }
  | PermanentFailure;

export interface PermanentFailure {
  do: 'failPermanently';
  show: Partial<Observed>;
}

/** A run at least this long resets the count of attempts. */
const STABLE_MS = 10 * 60_000;

export function plan(instance: Instance, observation: InstanceObservation, nowMs: number, limits: Limits): Step {
  const { observed } = instance;
  if (observation.kind === 'unknown') {
    const afterMs = limits.engineRetryMs;
    if (observed.diagnosis === 'EngineUnreachable' || hasFailed(observed.status)) return { do: 'rest', afterMs };
    return { do: 'mark', show: diagnosisFields('EngineUnreachable', observation.reason), afterMs };
  }
  // An engine outage restarts the deadlines instead of failing instances.
  if (observed.diagnosis === 'EngineUnreachable') {
    const show = outageEnded(instance, observation)
      ? endedFields(instance, nowMs, 'EngineUnreachable', 'the run ended while the container engine did not answer')
      : diagnosisFields('', '');
    return { do: 'mark', show: { ...show, countedFromMs: nowMs } };
  }
  const step = planKnown(instance, observation, nowMs, limits);
  const { ending } = observed;
  const hasEnded = ending !== null && (nowMs >= ending.byMs || observation.kind === 'absent' || !usesHost(observation));
  if (hasEnded && !(step.do === 'settle' && 'ending' in step.show)) return { do: 'mark', show: { ending: null } };
  const atRest = step.do === 'rest' && step.afterMs === undefined;
  if (atRest && isExpanding(instance)) return { do: 'grow' };
  return atRest && instance.unfinished.length > 0 ? { do: 'removeUnfinished' } : step;
}

type KnownObservation = Exclude<InstanceObservation, { kind: 'unknown' }>;
type PresentObservation = Extract<InstanceObservation, { kind: 'present' }>;

function planKnown(instance: Instance, observation: KnownObservation, nowMs: number, limits: Limits): Step {
  const { desired, observed } = instance;
  if (desired !== 'released') {
    const step = planRootDisk(instance, observation);
    if (step !== null) return step;
  }
  switch (desired) {
    case 'released':
      return observation.kind === 'absent' && observed.phase === 'Cleaned' ? { do: 'rest' } : { do: 'destroy' };
    case 'stopped':
      return planStopped(instance, observation, nowMs, limits);
    case 'archived':
      return planArchived(instance, observation, nowMs, limits);
    case 'running':
      return planRunning(instance, observation, nowMs, limits);
    default:
      return desired satisfies never;
  }
}

function planRootDisk(instance: Instance, observation: KnownObservation): Step | null {
  const { desired, observed, rootDisk } = instance;
  const isStopped = { phase: 'Stopped', ...diagnosisFields('', '') } as const;
  if (observation.kind === 'present' && rootDisk === 'lost') {
    const status = hasFailed(observed.status) ? nextStatus(observed.status, 'stop') : observed.status;
    return { do: 'mark', rootDisk: 'kept', show: { ...isStopped, status } };
  }
  if (observation.kind === 'present' || rootDisk !== 'kept') return null;
  const text = lostRootDiskText(instance, 'container');
  if (desired === 'running') return { do: 'loseRootDisk', show: failPermanently(instance, 'RootDiskLost', text).show };
  const isAtRest = hasFailed(observed.status) || observed.status === 'Stopped';
  const rest = isAtRest
    ? { status: observed.status, phase: hasFailed(observed.status) ? ('Failed' as const) : ('Stopped' as const) }
    : { status: nextStatus(observed.status, 'stop'), phase: 'Stopped' as const };
  return { do: 'loseRootDisk', show: { ...notRunning, ...rest, ...diagnosisFields('RootDiskLost', text) } };
}

function planStopped(instance: Instance, observation: KnownObservation, nowMs: number, limits: Limits): Step {
  const { observed } = instance;
  if (observation.kind === 'present' && usesHost(observation)) return planHalt(instance, observation, nowMs, limits);
  // An instance that failed to start is Stopped after a failed or cancelled archive.
  const { kind } = instance.operation;
  const wasArchiving = observed.status === 'StartingFailed' && (kind === 'archive' || kind === 'stop');
  if (hasFailed(observed.status) && !wasArchiving) return { do: 'rest' };
  const reason = stopReason(instance);
  const given = reason === 'OperatorStop' ? ` Reason: ${instance.operation.reason ?? 'none given'}` : '';
  const text = diagnoses[reason] + given;
  const diagnosis = diagnosisFields(reason, observed.diagnosis === reason ? observed.diagnosisMessage : text);
  if (observed.status === 'Stopped') {
    const settled = observed.phase === 'Stopped' && observed.diagnosis === reason;
    return settled ? { do: 'rest' } : { do: 'settle', show: { phase: 'Stopped', progress: null, ...diagnosis } };
  }
  return {
    do: 'settle',
    show: { ...notRunning, status: nextStatus(observed.status, 'stop'), phase: 'Stopped', ...diagnosis },
  };
}

/** The Docker sidecar may outlive a main process that exited. */
export const usesHost = ({ running, docker, reserved }: PresentObservation): boolean =>
  running || docker === 'running' || reserved === true;

/** Whether it uses the host after the end of its run, or while it waits for the next one. */
function usesHostUnpaid({ waitsSinceMs, notBeforeMs }: Instance, observation: PresentObservation): boolean {
  if (waitsSinceMs !== null || notBeforeMs !== null) return usesHost(observation);
  const { running, exitCode, docker, disruption, reserved } = observation;
  // A Pod that starts has its resources and a sidecar before an exit code; a disruption ends both.
  return exitCode !== null && (reserved === true || (!running && !disruption && docker === 'running'));
}

/** Reason shown while stopped; '' if a caller asked for the stop. */
function stopReason({ operation: { kind, cause, state }, observed, rootDisk }: Instance): Diagnosis {
  if (rootDisk === 'lost') return 'RootDiskLost';
  if (kind === 'expandDisk') return observed.diagnosis;
  if (kind === 'archive' && state === 'Failed') return 'ArchiveFailed';
  if (kind !== 'stop' || cause === 'user' || cause === 'resume' || cause === 'wake' || cause === 'LongStop') return '';
  return cause === 'operator' ? 'OperatorStop' : cause;
}

/** Charges from now on a run of which Berth did not know when it was asked to end it. */
function planUnknownRun(
  instance: Instance,
  observation: PresentObservation,
  reason: Diagnosis,
  nowMs: number,
): Step | null {
  const ending = endingSince(instance, reason, instance.requestedAtMs);
  const isKnown = isInUse(instance) || instance.observed.runStartedAtMs === observation.startedAtMs;
  if (!observation.running || isKnown || nowMs >= ending.byMs) return null;
  return { do: 'mark', show: { ending, runStartedAtMs: observation.startedAtMs } };
}

function planHalt(instance: Instance, observation: PresentObservation, nowMs: number, limits: Limits): Step {
  const { observed, requestedAtMs, operation } = instance;
  const late = nowMs - countedFrom(requestedAtMs, observed) > limits.stopDeadlineMs;
  const graceMs = late ? 0 : graceLeftMs(instance, graceOf(instance, limits), nowMs);
  if (hasFailed(observed.status)) return { do: 'halt', show: {}, graceMs };
  const unknown = planUnknownRun(instance, observation, reasonOfRequest(operation.cause), nowMs);
  if (unknown !== null) return unknown;
  // The end of the run says more than the cause of its stop.
  const why = operation.kind === 'stop' && observed.diagnosis === operation.cause ? observed.diagnosis : '';
  const reason = late || observed.diagnosis === 'StopDelayed' ? 'StopDelayed' : why;
  const text = observed.diagnosis === reason ? observed.diagnosisMessage : diagnoses[reason];
  return { do: 'halt', show: { phase: 'Stopping', ...diagnosisFields(reason, text) }, graceMs };
}

/**
 * Longer, a disk that fills the host would grow, and connections to node ports of a disabled
 * account would last.
 */
const SHORT_GRACE_MS = 1_000;
const shortGraceCauses: readonly Cause[] = ['AccountDisabled', ...diskStopCauses];

const graceOf = ({ operation: { kind, cause } }: Instance, { stopGraceMs }: Limits): number =>
  kind === 'stop' && shortGraceCauses.includes(cause) ? Math.min(SHORT_GRACE_MS, stopGraceMs) : stopGraceMs;

/** Further requests do not prolong the grace of the first one, at whose end the charge ends. */
const graceLeftMs = ({ observed: { ending } }: Instance, graceMs: number, nowMs: number): number =>
  ending === null ? graceMs : Math.min(graceMs, Math.max(0, ending.byMs - nowMs));

/** Removes the container only once the root disk is saved; without a container nothing is saved. */
function planArchived(instance: Instance, observation: KnownObservation, nowMs: number, limits: Limits): Step {
  const { observed, archive, generation } = instance;
  if (observation.kind === 'present') {
    if (usesHost(observation)) return planHalt(instance, observation, nowMs, limits);
    return archive?.generation === generation ? { do: 'removeSaved' } : { do: 'saveRoot' };
  }
  const hasMore = archive !== null && archive.replaces.length > 0;
  if (hasMore || instance.oldContainer !== null) return { do: 'removeSaved' };
  if (observed.status === 'Archived')
    return observed.phase === 'Archived'
      ? { do: 'rest' }
      : { do: 'settle', show: { ...notRunning, phase: 'Archived' } };
  const message = archive === null ? 'there was no root disk to save: the instance had never been Running' : '';
  return {
    do: 'settle',
    show: {
      ...notRunning,
      status: nextStatus(observed.status, 'archive'),
      phase: 'Archived',
      message,
      ...diagnosisFields('', ''),
    },
  };
}

function planRunning(instance: Instance, observation: KnownObservation, nowMs: number, limits: Limits): Step {
  const { observed } = instance;
  if (observation.kind === 'present' && usesHostUnpaid(instance, observation))
    return { do: 'halt', show: {}, graceMs: Math.min(SHORT_GRACE_MS, limits.stopGraceMs) };
  if (instance.notBeforeMs !== null) return { do: 'awaitWindow' };
  if (instance.waitsSinceMs !== null) return { do: 'acquireCapacity' };
  const overdue = findOverdue(instance, nowMs, limits);
  if (overdue) return failPermanently(instance, overdue.reason, overdue.text);
  if (instance.oldContainer !== null) return planReplacement(instance, observation, nowMs, limits);
  if (observation.kind === 'present' && observation.running)
    return instance.mustHalt
      ? planRestartHalt(instance, observation, nowMs, limits)
      : planPresent(instance, observation, nowMs, limits);
  // The stop is about to be requested.
  if (instance.reclaimAtMs !== null && instance.reclaimAtMs <= nowMs) return { do: 'rest' };
  if (hadStarted(observed) && !instance.mustHalt) {
    if (observation.kind === 'present' && observation.disruption)
      return planDisrupted(instance, observation, observation.disruption, nowMs, limits);
    if (observation.kind === 'absent')
      return planRestart(
        instance,
        'ContainerExited',
        'the container was removed from the engine',
        instance.attempts + 1,
        nowMs,
        limits,
      );
    if (observation.exitCode !== null) {
      const { runningSinceMs } = observed;
      const isStable = runningSinceMs > 0 && nowMs - runningSinceMs > STABLE_MS;
      const attempts = isStable ? 1 : instance.attempts + 1;
      const text = `the main process exited with code ${observation.exitCode}`;
      return planRestart(
        instance,
        observation.outOfMemory ? 'OutOfMemory' : 'ContainerExited',
        text,
        attempts,
        nowMs,
        limits,
      );
    }
    // Held, as by a pause: what the next start fails by ends no run.
    return { do: 'mark', show: endedFields(instance, nowMs, '', '') };
  }
  const event: StatusEvent = observation.kind === 'present' && observed.status === 'Initializing' ? 'made' : 'create';
  return { do: 'ensure', show: { status: nextStatus(observed.status, event), healthy: false, runningSinceMs: 0 } };
}

function planRestartHalt(instance: Instance, observation: PresentObservation, nowMs: number, limits: Limits): Step {
  const unknown = planUnknownRun(instance, observation, '', nowMs);
  return unknown ?? { do: 'halt', show: {}, graceMs: graceLeftMs(instance, limits.stopGraceMs, nowMs) };
}

/** Saves the root disk of a container of before a change, then removes the container. */
function planReplacement(instance: Instance, observation: KnownObservation, nowMs: number, limits: Limits): Step {
  const { archive, generation } = instance;
  if (observation.kind === 'absent') return { do: 'removeSaved' };
  if (usesHost(observation)) return planRestartHalt(instance, observation, nowMs, limits);
  return archive?.generation === generation ? { do: 'removeSaved' } : { do: 'saveRoot' };
}

function planRestart(
  instance: Instance,
  reason: Diagnosis,
  text: string,
  attempts: number,
  nowMs: number,
  limits: Limits,
): Step {
  if (attempts > limits.maxAttempts) return failPermanently(instance, reason, `${text}, ${attempts} times in a row`);
  const show = endedFields(instance, nowMs, reason, text);
  return { do: 'mark', show, attempts, backOffMs: backOffMs(attempts, limits) };
}

function endedFields(
  { observed: { status, countedFromMs } }: Instance,
  nowMs: number,
  reason: Diagnosis,
  text: string,
): Partial<Observed> {
  return {
    status: nextStatus(status, 'end'),
    // A Running instance's request may be long ago: the start deadline counts from the exit.
    countedFromMs: isLasting(status) ? nowMs : countedFromMs,
    phase: 'Queued',
    healthy: false,
    runningSinceMs: 0,
    message: '',
    ...diagnosisFields(reason, text),
  };
}

/** Whether the run of before an outage is over, and names no other cause. */
function outageEnded({ desired, mustHalt, observed }: Instance, observation: KnownObservation): boolean {
  if (desired !== 'running' || mustHalt || !hadStarted(observed)) return false;
  if (observation.kind === 'absent') return true;
  const { running, exitCode, outOfMemory, disruption } = observation;
  if (outOfMemory || disruption) return false;
  return running ? isOtherRun(observed, observation) : exitCode !== null;
}

const isOtherRun = ({ runStartedAtMs }: Observed, { startedAtMs }: PresentObservation): boolean =>
  runStartedAtMs !== 0 && startedAtMs !== 0 && runStartedAtMs !== startedAtMs;

/**
 * A spot instance is reclaimed: it runs until its programs are told to end. Any other starts again,
 * elsewhere if need be, which is no failed attempt of its own.
 */
function planDisrupted(
  instance: Instance,
  { running }: PresentObservation,
  { text, graceMs, usedUp }: Disruption,
  nowMs: number,
  limits: Limits,
): Step {
  const { observed, reclaimAtMs, spec } = instance;
  if (usedUp === 'rootDisk') {
    const { rootDiskGB } = spec.type;
    const show = endedFields(instance, nowMs, 'RootDiskOverSize', overRootDiskText(rootDiskGB, text));
    return { do: 'stop', cause: 'RootDiskOverSize', why: { rootDiskSizeGB: rootDiskGB }, show };
  }
  if (spec.isSpot) {
    const atMs = running ? nowMs + graceMs : nowMs;
    if (reclaimAtMs !== null && reclaimAtMs <= atMs) return { do: 'rest' };
    return { do: 'announceReclaim', atMs, reason: text, show: running ? {} : endedFields(instance, nowMs, '', '') };
  }
  // Until the next run begins.
  if (!hadStarted(observed)) return { do: 'rest', afterMs: limits.engineRetryMs };
  if (usedUp === 'node') return planRestart(instance, 'ContainerExited', text, instance.attempts + 1, nowMs, limits);
  return { do: 'mark', show: endedFields(instance, nowMs, 'Evicted', text) };
}

const overRootDiskText = (rootDiskGB: number, text: string): string =>
  `the instance wrote more than the ${rootDiskGB} GB of its root disk, and its node ended it (${text}); the root disk is gone, and the data disk, the shared folder and volumes are kept: write large files there, or resize to a type with a larger root disk, then start it`;

function planPresent(instance: Instance, observation: PresentObservation, nowMs: number, limits: Limits): Step {
  const { observed, spec } = instance;
  if (observation.disruption) return planDisrupted(instance, observation, observation.disruption, nowMs, limits);
  // Another program, such as a cluster, ended the run and started the instance again.
  if (isInUse(instance) && isOtherRun(observed, observation))
    return {
      do: 'mark',
      show: endedFields(instance, nowMs, 'ContainerExited', 'the run ended, and the engine began another'),
    };
  if (observed.phase === 'Ready' && observed.status === 'Running') {
    if (observation.answers === false && observed.healthy)
      return { do: 'mark', show: { healthy: false, ...diagnosisFields('Unhealthy', diagnoses.Unhealthy) } };
    if (observation.answers === true && !observed.healthy)
      return { do: 'mark', show: { healthy: true, ...diagnosisFields('', '') } };
    const { gpuLostAtMs, memoryKills } = observation;
    if (memoryKills && memoryKills.count > (memoryKillsOf(instance)?.count ?? 0))
      return { do: 'reportKills', ...memoryKills };
    const lost = lostGpuOf(instance);
    const gpuLost = observed.diagnosis === '' ? diagnosisFields('GpuLost', diagnoses.GpuLost) : {};
    if (typeof gpuLostAtMs === 'number' && lost === null) return { do: 'loseGpu', sinceMs: gpuLostAtMs, show: gpuLost };
    if (lost && gpuLostAtMs !== null && observed.diagnosis === '') return { do: 'mark', show: gpuLost };
    const named = observed.diagnosis === 'GpuLost' ? diagnosisFields('', '') : {};
    if (lost && gpuLostAtMs === null) return { do: 'mark', show: { lostGpu: null, ...named } };
    const isCurrent = observed.diagnosis === 'Unhealthy' || (observed.diagnosis === 'GpuLost' && lost !== null);
    if (observed.diagnosis !== '' && !isCurrent) return { do: 'mark', show: diagnosisFields('', '') };
    if (isExpanding(instance)) return { do: 'grow' };
    if (instance.filesStale || (spec.enableDocker && observation.docker === 'stopped')) return { do: 'refresh' };
    const awaits = awaitsScript(instance) || observed.notebook?.state === 'starting' || observation.notebookDiffers;
    return awaits ? { do: 'checkReports' } : { do: 'rest' };
  }
  const isNew = observed.runStartedAtMs !== observation.startedAtMs;
  if (!isNew && nowMs - countedFrom(instance.requestedAtMs, observed) > limits.readyDeadlineMs)
    return failPermanently(
      instance,
      'StartTimeout',
      `the instance was not ready ${limits.readyDeadlineMs / 1000} s after its start`,
    );
  return {
    do: 'checkReady',
    startedAtMs: observation.startedAtMs,
    show: {
      status: nextStatus(observed.status, 'made'),
      phase: 'WaitReady',
      progress: null,
      // The engine's clock may be wrong.
      ...(isNew ? { countedFromMs: nowMs } : {}),
      ...diagnosisFields('', ''),
    },
  };
}

const awaitsScript = ({ spec, initExit, observed }: Instance): boolean =>
  (spec.initScript.trim() !== '' && initExit === null) ||
  (spec.startCommand.trim() !== '' && observed.startExit === null);

const hadStarted = (observed: Observed): boolean => observed.phase === 'Ready' || observed.phase === 'WaitReady';
const hasFailed = (status: InstanceStatus): boolean => status === 'StartingFailed' || status === 'InitializationFailed';

const notRunning = { ending: null, healthy: false, runningSinceMs: 0, message: '', progress: null } as const;

export const diagnosisFields = (
  diagnosis: Diagnosis,
  diagnosisMessage: string,
): Pick<Observed, 'diagnosis' | 'diagnosisMessage'> => ({
  diagnosis,
  diagnosisMessage,
});

export function failPermanently(
  { observed }: Pick<Instance, 'observed'>,
  diagnosis: Diagnosis,
  text: string,
): PermanentFailure {
  const status = nextStatus(observed.status, 'failPermanently');
  const reason = permanentReason(diagnosis);
  return { do: 'failPermanently', show: { ...notRunning, status, phase: 'Failed', ...diagnosisFields(reason, text) } };
}
