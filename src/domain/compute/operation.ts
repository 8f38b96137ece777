/**
 * # Operations
 *
 * Each request starts an operation with stages, times and progress. The current operation is in its
 * subject's row; the next request moves the operation to the history. An id is made of subject and
 * generation.
 */
import { diskStopCauses } from '../storage/disk-growth.ts';
import { diagnoses, type Action, type Diagnosis, type Phase } from './instance-states.ts';

/** Rows that operations change and that leases and reconcile loops share out. */
export const subjectKinds = ['instance', 'volume', 'snapshot', 'image'] as const;
export type SubjectKind = (typeof subjectKinds)[number];

export const operationKinds = [
  'launch',
  'start',
  'stop',
  'restart',
  'archive',
  'terminate',
  'expandDisk',
  'saveImage',
  'deleteImage',
  'refreshImage',
  'createVolume',
  'expandVolume',
  'deleteVolume',
  'createSnapshot',
  'deleteSnapshot',
] as const;
export type OperationKind = (typeof operationKinds)[number];

export const operationStates = ['Pending', 'Running', 'Succeeded', 'Failed', 'Cancelled'] as const;
export type OperationState = (typeof operationStates)[number];

/** A caller, or an automatic stop (then also the diagnosis of a Stopped instance). */
export const operationCauses = [
  'user',
  'operator',
  /** The start after an automatic stop, by the option `resume`. */
  'resume',
  /** A request at the gateway, by the owner's setting. */
  'wake',
  /** The archive after a long stop. */
  'LongStop',
  'ScheduledStop',
  'MaxRunTime',
  'IdleStop',
  'PaidTimeEnded',
  'AccountDisabled',
  'NoMoney',
  'BudgetReached',
  'OffPeakEnded',
  'SpotReclaimed',
  ...diskStopCauses,
] as const;
export type Cause = (typeof operationCauses)[number];

export const stageNames = [
  'Queued',
  'Placed',
  'Image',
  'Disks',
  'Container',
  'Readiness',
  'InitScript',
  'Stop',
  'Archive',
  'Clean',
] as const;
export type StageName = (typeof stageNames)[number];

export const progressUnits = ['bytes', 'steps'] as const;
/** `total` is 0 while unknown. */
export interface Progress {
  done: number;
  total: number;
  unit: (typeof progressUnits)[number];
}

export interface Stage {
  name: StageName;
  startedAtMs: number;
  endedAtMs: number | null;
  progress: Progress | null;
}

export interface OperationError {
  reason: string;
  message: string;
  whatToDo: string;
}

export interface Operation {
  kind: OperationKind;
  cause: Cause;
  startedAtMs: number;
  endedAtMs: number | null;
  state: OperationState;
  stages: Stage[];
  error: OperationError | null;
  /** Why an operator asked for it. */
  reason?: string;
}

/** Generation of the operation that created the resource. */
export const FIRST_GENERATION = 1;

export const operationId = (subjectId: string, generation: number): string => `${subjectId}.${generation}`;

/** Stages of each kind in order, with their shares of 100 percent. */
const stageWeights: Readonly<Record<OperationKind, Readonly<Partial<Record<StageName, number>>>>> = {
  launch: { Queued: 1, Placed: 1, Image: 60, Disks: 5, Container: 13, Readiness: 20 },
  start: { Queued: 1, Placed: 1, Archive: 0, Image: 50, Disks: 8, Container: 20, Readiness: 20 },
  restart: { Stop: 30, Archive: 0, Image: 10, Disks: 5, Container: 25, Readiness: 30 },
  stop: { Stop: 100 },
  archive: { Stop: 20, Archive: 80 },
  terminate: { Clean: 100 },
  expandDisk: { Disks: 100 },
  saveImage: { Archive: 100 },
  deleteImage: { Clean: 100 },
  refreshImage: { Image: 100 },
  createVolume: { Disks: 100 },
  expandVolume: { Disks: 100 },
  deleteVolume: { Clean: 100 },
  createSnapshot: { Disks: 100 },
  deleteSnapshot: { Clean: 100 },
};

function stagesOf(kind: OperationKind): StageName[] {
  const weights = stageWeights[kind];
  return Object.keys(weights).filter((name): name is StageName => name in weights);
}

const stageOfPhase: Readonly<Record<Phase, StageName | null>> = {
  Queued: 'Queued',
  DownloadImage: 'Image',
  PrepareDisks: 'Disks',
  CreateContainer: 'Container',
  WaitReady: 'Readiness',
  Ready: null,
  Stopping: 'Stop',
  Stopped: null,
  Archiving: 'Archive',
  Archived: null,
  Cleaning: 'Clean',
  RemovingDisks: 'Clean',
  Cleaned: null,
  Failed: null,
};

/** Kinds without a queue are Running from the start. */
export const beginOperation = (kind: OperationKind, cause: Cause, nowMs: number): Operation => {
  const [first] = stagesOf(kind);
  return {
    kind,
    cause,
    startedAtMs: nowMs,
    endedAtMs: null,
    state: first === 'Queued' ? 'Pending' : 'Running',
    stages: first === undefined ? [] : [{ name: first, startedAtMs: nowMs, endedAtMs: null, progress: null }],
    error: null,
  };
};

const isIndependent = ({ kind }: Operation): boolean => kind === 'expandDisk';

/** Ends the current stage. A re-entered stage keeps its start time and progress. */
export function beginStage(
  operation: Operation,
  name: StageName,
  nowMs: number,
  progress: Progress | null = null,
): Operation {
  if (operation.endedAtMs !== null || isIndependent(operation)) return operation;
  const last = operation.stages.at(-1);
  if (last?.name === name && last.endedAtMs === null) {
    if (progress === null || isSameProgress(last.progress, progress)) return operation;
    return { ...operation, stages: [...operation.stages.slice(0, -1), { ...last, progress }] };
  }
  const before = operation.stages.filter((stage) => stage.name !== name).map((stage) => endStage(stage, nowMs));
  const again = operation.stages.find((stage) => stage.name === name);
  const stage: Stage = {
    name,
    startedAtMs: again?.startedAtMs ?? nowMs,
    endedAtMs: null,
    progress: progress ?? again?.progress ?? null,
  };
  return { ...operation, state: 'Running', stages: [...before, stage] };
}

const stagesWithProgress: readonly StageName[] = ['Image', 'Archive'];

/** The phase determines the stage; a phase at rest ends the operation. */
export function advanceOperation(
  operation: Operation,
  observed: { phase: Phase; progress: Progress | null; diagnosis: Diagnosis; diagnosisMessage: string },
  nowMs: number,
): Operation {
  if (operation.endedAtMs !== null || isIndependent(operation)) return operation;
  const { phase, progress, diagnosis, diagnosisMessage } = observed;
  if (phase === 'Failed') return failOperation(operation, operationErrorOf(diagnosis, diagnosisMessage), nowMs);
  const stage = stageOfPhase[phase];
  if (stage === null) return endOperation(operation, 'Succeeded', nowMs);
  // A placed instance shows the phase Queued until it is reconciled: it is not queued again.
  if (stage === 'Queued' && operation.stages.at(-1)?.name === 'Placed') return operation;
  return beginStage(operation, stage, nowMs, stagesWithProgress.includes(stage) ? progress : null);
}

export const beginInitScript = (operation: Operation, nowMs: number): Operation => ({
  ...operation,
  stages: [
    ...operation.stages.filter(({ name }) => name !== 'InitScript'),
    { name: 'InitScript', startedAtMs: nowMs, endedAtMs: null, progress: null },
  ],
});

export const endInitScript = (operation: Operation, nowMs: number): Operation => ({
  ...operation,
  stages: operation.stages.map((stage) => (stage.name === 'InitScript' ? endStage(stage, nowMs) : stage)),
});

const close = (operation: Operation, state: OperationState, nowMs: number, error: OperationError | null): Operation =>
  operation.endedAtMs === null
    ? {
        ...operation,
        state,
        endedAtMs: nowMs,
        stages: operation.stages.map((stage) => (stage.name === 'InitScript' ? stage : endStage(stage, nowMs))),
        error,
      }
    : operation;

export const endOperation = (operation: Operation, state: 'Succeeded' | 'Cancelled', nowMs: number): Operation =>
  close(operation, state, nowMs, null);

export const failOperation = (operation: Operation, error: OperationError, nowMs: number): Operation =>
  close(operation, 'Failed', nowMs, error);

export const operationErrorOf = (reason: Diagnosis, message: string): OperationError => ({
  reason,
  message,
  whatToDo: diagnoses[reason],
});

/** A later request cancels the operation if it has not ended. */
export const supersedeOperation = (operation: Operation, nowMs: number): Operation => {
  const over = endOperation(operation, 'Cancelled', nowMs);
  return { ...over, stages: over.stages.map((stage) => endStage(stage, nowMs)) };
};

const endStage = (stage: Stage, nowMs: number): Stage =>
  stage.endedAtMs === null ? { ...stage, endedAtMs: nowMs } : stage;

const isSameProgress = (a: Progress | null, b: Progress): boolean =>
  a?.done === b.done && a.total === b.total && a.unit === b.unit;

const BYTES_PER_MB = 1_000_000;
const inMB = (bytes: number): string => (bytes / BYTES_PER_MB).toFixed(1);

/** Example: `12.3 of 45.6 MB`; without the total while unknown. */
export function amountOf({ done, total, unit }: Progress): string {
  if (unit === 'steps') return total > 0 ? `step ${done} of ${total}` : `step ${done}`;
  return total > 0 ? `${inMB(done)} of ${inMB(total)} MB` : `${inMB(done)} MB`;
}

/** 0 to 100, by stage weights and the current stage's progress. 100 only after success. */
export function percentOf(operation: Operation): number {
  if (operation.state === 'Succeeded') return 100;
  const weights = stageWeights[operation.kind];
  const now = currentStage(operation);
  const weight = now && weights[now.name];
  if (!now || weight === undefined) return 0;
  const stages = stagesOf(operation.kind);
  const over = stages.slice(0, stages.indexOf(now.name)).reduce((sum, name) => sum + (weights[name] ?? 0), 0);
  const { done, total } = now.progress ?? { done: 0, total: 0 };
  const share = total > 0 ? Math.min(1, done / total) : 0;
  return Math.min(99, Math.floor(over + share * weight));
}

const currentStage = ({ stages }: Operation): Stage | undefined => stages.findLast(({ name }) => name !== 'InitScript');

/** Whether a past stage did its work. False if a failure, a cancel or a step back ended it. */
export function isStageComplete(name: StageName, operation: Operation): boolean {
  if (operation.state === 'Succeeded' || name === 'InitScript') return true;
  const stages = stagesOf(operation.kind);
  const current = currentStage(operation);
  return current !== undefined && stages.indexOf(name) < stages.indexOf(current.name);
}

/** Kinds that the timeline of an instance shows. */
export const bringUpKinds: readonly OperationKind[] = ['launch', 'start', 'restart'];

const cancellations: Readonly<Record<OperationKind, { action: Action } | { why: string }>> = {
  launch: { action: 'terminate' },
  start: { action: 'stop' },
  restart: { action: 'stop' },
  archive: { action: 'stop' },
  stop: { why: 'a stop cannot be undone; wait until the instance is Stopped, then start it' },
  terminate: { why: 'a termination cannot be undone; launch another instance' },
  expandDisk: { why: 'a disk cannot shrink; wait until the expansion has ended' },
  saveImage: { why: 'the saving of an image cannot be undone; delete the image with POST /image/delete' },
  deleteImage: { why: 'a deletion cannot be undone; create another image, or save an instance again' },
  refreshImage: { why: 'a download of an image leaves instances as they are; wait until it has ended' },
  createVolume: {
    why: 'the creation of a volume cannot be undone; delete the volume with POST /storage/volume/delete',
  },
  expandVolume: { why: 'a volume cannot shrink; create a smaller volume, and copy the files' },
  deleteVolume: { why: 'a deletion cannot be undone; create another volume' },
  createSnapshot: {
    why: 'the creation of a snapshot cannot be undone; delete the snapshot with POST /storage/snapshot/delete',
  },
  deleteSnapshot: { why: 'a deletion cannot be undone; take another snapshot' },
};

export const planCancellation = ({ kind, state, endedAtMs }: Operation): { action: Action } | { why: string } =>
  endedAtMs === null
    ? cancellations[kind]
    : { why: `the operation has already ended (${state}); there is nothing to cancel` };
