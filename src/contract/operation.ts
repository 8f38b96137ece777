/** Operations: how each wish fares. Every change that takes time answers the id of its operation in the header `X-Operation-Id`. */
import { z } from 'zod';
import { id, pagerAnswer, pagerRequest } from './common.ts';
import { instance } from './instance.ts';

/** Carries the id of the operation that an answer began. */
export const OPERATION_HEADER = 'X-Operation-Id';

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
  'createVolume',
  'expandVolume',
  'deleteVolume',
  'createSnapshot',
  'deleteSnapshot',
] as const;

/** `Pending`: it waits in line for room. `Cancelled`: taken back, or followed by another wish before it was done. */
export const operationStates = ['Pending', 'Running', 'Succeeded', 'Failed', 'Cancelled'] as const;

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

const stage = z.strictObject({
  name: z.enum(stageNames),
  startedAtUnixMs: z.number().int(),
  endedAtUnixMs: z.number().int().nullable(),
  /** 0, 0 and '' where there is nothing to measure; `total` is 0 while it is not known. */
  done: z.number(),
  total: z.number(),
  unit: z.enum(['bytes', 'steps', '']),
  text: z.string(),
});

export const operation = z.strictObject({
  operationId: z.string(),
  subjectId: z.string(),
  kind: z.enum(operationKinds),
  /** Who wished it: a caller, the operator, or what ended the instance by itself. */
  cause: z.string(),
  state: z.enum(operationStates),
  /** 0 to 100; only a success is 100. */
  percent: z.number().int(),
  stages: z.array(stage),
  startedAtUnixMs: z.number().int(),
  endedAtUnixMs: z.number().int().nullable(),
  error: z.strictObject({ reason: z.string(), message: z.string(), whatToDo: z.string() }).nullable(),
  cancellable: z.boolean(),
});

export const operationIdBody = z.object({ operationId: id });
export const operationAnswer = z.strictObject({ operation });

export const operationListRequest = z.object({
  /** One of the four. */
  instanceId: id.optional(),
  volumeId: id.optional(),
  snapshotId: id.optional(),
  imageId: id.optional(),
  pager: pagerRequest,
});
export const operationListAnswer = z.strictObject({ operations: z.array(operation), pager: pagerAnswer });

const disk = z.strictObject({
  disk: z.enum(['root', 'data', 'docker', 'shared', 'volume']),
  /** Of a volume its id; '' of the root disk. */
  id: z.string(),
  mountPath: z.string(),
  sizeGB: z.number(),
  /** `hard`: it stops a writer. `soft`: it is measured alone. */
  sizeLimit: z.enum(['hard', 'soft']),
  /** As last measured. */
  usageGB: z.number(),
  percent: z.number().int(),
  /** Of one that is all but full: what takes most of it, by its path below the mount path, largest first. */
  biggest: z.array(z.strictObject({ path: z.string(), usageGB: z.number() })),
});

/** The instance, and the stages of the operation that brought it up, or brings it; null when none is kept any more. */
export const instanceGetAnswer = z.strictObject({
  instance,
  timeline: z.array(stage),
  operationId: z.string().nullable(),
  disks: z.array(disk),
});
