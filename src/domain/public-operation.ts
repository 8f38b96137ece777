import {
  amountOf,
  planCancellation,
  operationId,
  percentOf,
  isStageComplete,
  type Operation,
  type Stage,
  type StageName,
} from './operation.ts';

const stageTexts: Readonly<Record<StageName, readonly [during: string, after: string]>> = {
  Queued: ['waits for its turn', 'had its turn'],
  Placed: ['has its place in the region', 'has its place in the region'],
  Image: ['the image is made ready', 'the image is there'],
  Disks: ['the disks are made ready', 'the disks are ready'],
  Container: ['the container is made', 'the container is there'],
  Readiness: ['waits until its software answers', 'its software answers'],
  InitScript: ['the init script runs', 'the init script has ended'],
  Stop: ['the container is stopped', 'the container has stopped'],
  Archive: ['the root disk is kept as an image', 'the root disk is an image now'],
  Clean: ['what it leaves behind is removed', 'nothing is left of it'],
};

function textOf(stage: Stage, operation: Operation): string {
  const { name, progress, endedAtMs } = stage;
  const [during, after] = stageTexts[name];
  const amount = progress === null ? '' : `: ${amountOf(progress)}`;
  if (endedAtMs === null) return during + amount;
  return isStageComplete(name, operation) ? after + amount : `not finished: ${during}${amount}`;
}

/** `unit` is '' where nothing is measured; `total` is 0 while unknown. */
export const publicStages = (operation: Operation) =>
  operation.stages.map((stage) => ({
    name: stage.name,
    startedAtUnixMs: stage.startedAtMs,
    endedAtUnixMs: stage.endedAtMs,
    done: stage.progress?.done ?? 0,
    total: stage.progress?.total ?? 0,
    unit: stage.progress?.unit ?? ('' as const),
    text: textOf(stage, operation),
  }));

export const publicOperation = (subjectId: string, generation: number, operation: Operation) => ({
  operationId: operationId(subjectId, generation),
  subjectId,
  kind: operation.kind,
  cause: operation.cause,
  state: operation.state,
  percent: percentOf(operation),
  stages: publicStages(operation),
  startedAtUnixMs: operation.startedAtMs,
  endedAtUnixMs: operation.endedAtMs,
  error: operation.error,
  cancellable: 'action' in planCancellation(operation),
});

export type PublicStage = ReturnType<typeof publicStages>[number];
export type PublicOperation = ReturnType<typeof publicOperation>;
