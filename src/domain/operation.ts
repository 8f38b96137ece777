/**
 * # Operations
 *
 * Every wish is an operation with stages: what it went through, since when, how far it is. The present one of an instance is part of
 * its row and is carried on by the same writes that change the row; the next wish moves it to the history. Its id is the instance's
 * id and the wish's generation, so whoever wished knows it before anything has been done.
 */
import type { Observed } from './instance.ts';
import type { Diagnosis, Phase } from './instance-states.ts';

export const operationKinds = [
  'launch',
  'start',
  'stop',
  'restart',
  'archive',
  'terminate',
  'saveImage',
  'createVolume',
  'deleteVolume',
] as const;
export type OperationKind = (typeof operationKinds)[number];

export const operationStates = ['Pending', 'Running', 'Succeeded', 'Failed', 'Cancelled'] as const;
export type OperationState = (typeof operationStates)[number];

/** Who wished it: a caller, or what ends an instance by itself (then it is also the reason that a Stopped one shows). */
export type Cause = 'user' | 'operator' | Extract<Diagnosis, 'ScheduledStop' | 'MaxRunTime' | 'IdleStop'>;

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

/** How far something is, in a unit that can be added up. `total` is 0 while it is not known. */
export interface Progress {
  done: number;
  total: number;
  unit: 'bytes' | 'steps';
}

export interface Stage {
  name: StageName;
  startedAtMs: number;
  /** Null while it lasts. */
  endedAtMs: number | null;
  progress: Progress | null;
}

export interface Operation {
  kind: OperationKind;
  cause: Cause;
  startedAtMs: number;
  /** Null while it is under way. */
  endedAtMs: number | null;
  state: OperationState;
  stages: Stage[];
}

export const operationId = (subjectId: string, generation: number): string => `${subjectId}.${generation}`;

/** The stages each kind goes through, in order, with its weight in the percentage. */
const courses: Readonly<Record<OperationKind, readonly (readonly [StageName, number])[]>> = {
  launch: [
    ['Queued', 1],
    ['Placed', 1],
    ['Image', 60],
    ['Disks', 5],
    ['Container', 13],
    ['Readiness', 20],
  ],
  start: [
    ['Queued', 1],
    ['Placed', 1],
    ['Image', 50],
    ['Disks', 8],
    ['Container', 20],
    ['Readiness', 20],
  ],
  restart: [
    ['Stop', 40],
    ['Container', 30],
    ['Readiness', 30],
  ],
  stop: [['Stop', 100]],
  archive: [
    ['Stop', 20],
    ['Archive', 80],
  ],
  terminate: [['Clean', 100]],
  saveImage: [['Archive', 100]],
  createVolume: [['Disks', 100]],
  deleteVolume: [['Clean', 100]],
};

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

export const beginOperation = (kind: OperationKind, cause: Cause, nowMs: number): Operation => {
  const first = courses[kind][0]?.[0];
  return {
    kind,
    cause,
    startedAtMs: nowMs,
    endedAtMs: null,
    state: 'Pending',
    stages: first === undefined ? [] : [{ name: first, startedAtMs: nowMs, endedAtMs: null, progress: null }],
  };
};

/** Enters a stage: what was under way ends, and one that comes again goes on where it was. */
export function enter(
  operation: Operation,
  name: StageName,
  nowMs: number,
  progress: Progress | null = null,
): Operation {
  if (operation.endedAtMs !== null) return operation;
  const last = operation.stages.at(-1);
  if (last?.name === name && last.endedAtMs === null) {
    if (progress === null || same(last.progress, progress)) return operation;
    return { ...operation, stages: [...operation.stages.slice(0, -1), { ...last, progress }] };
  }
  const before = operation.stages.filter((stage) => stage.name !== name).map((stage) => ended(stage, nowMs));
  const again = operation.stages.find((stage) => stage.name === name);
  const stage: Stage = {
    name,
    startedAtMs: again?.startedAtMs ?? nowMs,
    endedAtMs: null,
    progress: progress ?? again?.progress ?? null,
  };
  return { ...operation, state: 'Running', stages: [...before, stage] };
}

/** Carries the operation on to what was observed: the phase is its stage, and a phase of rest ends it. */
export function carryOn(
  operation: Operation,
  { phase, progress }: Pick<Observed, 'phase' | 'progress'>,
  nowMs: number,
): Operation {
  if (operation.endedAtMs !== null) return operation;
  const stage = stageOfPhase[phase];
  if (stage !== null) return enter(operation, stage, nowMs, progress);
  return endOperation(operation, phase === 'Failed' ? 'Failed' : 'Succeeded', nowMs);
}

/** The init script runs beside the instance: it is in the timeline, and the operation does not wait for it. */
export const beginInit = (operation: Operation, nowMs: number): Operation => ({
  ...operation,
  stages: [...operation.stages, { name: 'InitScript', startedAtMs: nowMs, endedAtMs: null, progress: null }],
});

export const endInit = (operation: Operation, nowMs: number): Operation => ({
  ...operation,
  stages: operation.stages.map((stage) => (stage.name === 'InitScript' ? ended(stage, nowMs) : stage)),
});

export const endOperation = (operation: Operation, state: OperationState, nowMs: number): Operation =>
  operation.endedAtMs === null
    ? {
        ...operation,
        state,
        endedAtMs: nowMs,
        stages: operation.stages.map((stage) => (stage.name === 'InitScript' ? stage : ended(stage, nowMs))),
      }
    : operation;

const ended = (stage: Stage, nowMs: number): Stage =>
  stage.endedAtMs === null ? { ...stage, endedAtMs: nowMs } : stage;

const same = (a: Progress | null, b: Progress): boolean =>
  a?.done === b.done && a.total === b.total && a.unit === b.unit;

/** 0 to 100: the weights of the stages that are over, and the share of the one under way. Only a success is 100. */
export function percentOf({ kind, state, stages }: Operation): number {
  if (state === 'Succeeded') return 100;
  const course = courses[kind];
  const now = stages.at(-1);
  const at = course.findIndex(([name]) => name === now?.name);
  if (!now || at < 0) return 0;
  const over = course.slice(0, at).reduce((sum, [, weight]) => sum + weight, 0);
  const { done, total } = now.progress ?? { done: 0, total: 0 };
  const share = now.endedAtMs !== null ? 1 : total > 0 ? Math.min(1, done / total) : 0;
  return Math.min(99, Math.floor(over + share * (course[at]?.[1] ?? 0)));
}
