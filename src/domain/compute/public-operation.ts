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
  Queued: ['waiting to be scheduled', 'scheduled'],
  Placed: ['capacity is allocated', 'capacity is allocated'],
  Image: ['preparing the image', 'the image is ready'],
  Disks: ['preparing the disks', 'the disks are ready'],
  Container: ['creating the container', 'the container exists'],
  Readiness: ['waiting until the instance is ready', 'the instance is ready'],
  InitScript: ['running the init script', 'the init script has ended'],
  Stop: ['stopping the container', 'the container has stopped'],
  Archive: ['saving the root disk as an image', 'the root disk is saved as an image'],
  Clean: ['removing what remains', 'everything is removed'],
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
  reason: operation.reason ?? '',
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
