/** Operations: the progress of a change that takes time. The header `X-Operation-Id` names one. */
import { z } from 'zod';
import { mountedDiskKinds, sizeLimits } from '../../domain/storage/disk.ts';
import { operationKinds, operationStates, progressUnits, stageNames } from '../../domain/compute/operation.ts';
import {
  answer,
  decimal,
  flag,
  id,
  instanceIdBody,
  integer,
  integerOrNull,
  pagerAnswer,
  pagerRequest,
  request,
  text,
  textOrNull,
  unixMs,
} from '../common.ts';
import { instance, instanceBillingOptions } from './instance.ts';
import { operationRoute, readRoute } from '../route.ts';

export const OPERATION_HEADER = 'X-Operation-Id';

const end = integerOrNull('End, Unix milliseconds; null while it runs');
const stage = answer('Stage', {
  name: z.enum(stageNames).describe('Stage'),
  startedAtUnixMs: unixMs('Start'),
  endedAtUnixMs: end,
  done: decimal('Completed units; 0 for a stage without a measure'),
  total: decimal('Units in all; 0 while unknown'),
  unit: z.enum([...progressUnits, '']).describe('Unit; empty for a stage without a measure'),
  text: text('Current step; may be empty'),
});
const failure = answer('OperationError', {
  reason: text('Reason, from a closed list'),
  message: text('Cause'),
  whatToDo: text('Next step for the user'),
});

export const operation = answer('Operation', {
  operationId: text('Operation ID'),
  subjectId: text('Instance, volume, snapshot or image that the operation changes'),
  kind: z.enum(operationKinds).describe('Kind of change'),
  cause: text('Origin: a caller, the operator or a stop policy'),
  reason: text('Why an operator asked for it; else empty'),
  state: z
    .enum(operationStates)
    .describe('`Pending`: waits for capacity; `Cancelled`: cancelled or superseded before its end'),
  percent: integer('Progress, 0 to 100; 100 only on success'),
  stages: z.array(stage).describe('Stages in order'),
  startedAtUnixMs: unixMs('Start'),
  endedAtUnixMs: end,
  error: failure.nullable().describe('Failure; null without one'),
  cancellable: flag('Whether `/operation/cancel` accepts the operation'),
});

export const operationIdBody = request('OperationIdRequest', { operationId: id.describe('Operation ID') });
export const operationAnswer = answer('OperationAnswer', { operation: operation.describe('The operation') });

export const operationListRequest = request(
  'ListOperationsRequest',
  {
    instanceId: id.describe('Instance ID').optional(),
    volumeId: id.describe('Volume ID').optional(),
    snapshotId: id.describe('Snapshot ID').optional(),
    imageId: id.describe('Image ID').optional(),
    pager: pagerRequest.describe('Page to return'),
  },
  'Requires exactly one of the four IDs',
);
export const operationListAnswer = answer('ListOperationsAnswer', {
  operations: z.array(operation).describe('Operations of the page'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

const largePath = answer('LargePath', {
  path: text('Path below the mount path'),
  usageGB: decimal('Used space in GB'),
});
const disk = answer('InstanceDisk', {
  disk: z.enum(['root', ...mountedDiskKinds]).describe('Kind of disk'),
  id: text('Volume ID for a volume; empty for the root disk'),
  mountPath: text('Mount path inside the instance'),
  sizeGB: decimal('Size in GB'),
  sizeLimit: z.enum(sizeLimits).describe('`hard`: writes beyond the size fail; `soft`: usage is measured only'),
  usageGB: decimal('Used space in GB, as last measured'),
  percent: integer('Used share in percent'),
  biggest: z.array(largePath).describe('Largest paths of a nearly full disk, largest first'),
});

const operatorAction = answer('OperatorAction', {
  action: z.enum(operationKinds).describe('Action'),
  reason: text('Reason that the operator gave'),
  atUnixMs: unixMs('Request'),
})
  .nullable()
  .describe('Last action, if an operator requested it; else null');

const billing = answer('InstanceBillingOptions', {
  ...instanceBillingOptions,
  paidTime: answer('PaidTime', {
    units: integer('Days, weeks or months'),
    price: decimal('Dollars for one of them'),
    startsAtUnixMs: integerOrNull('Start, Unix milliseconds; null until the instance is `Running`'),
    endsAtUnixMs: integerOrNull('End, Unix milliseconds; null until the instance is `Running`'),
  })
    .nullable()
    .describe('Time paid ahead, which may be over; null for charges by the hour'),
}).describe('Changed by `/instance/billing`');

export const instanceGetAnswer = answer('GetInstanceAnswer', {
  instance: instance.describe('The instance'),
  timeline: z.array(stage).describe('Stages of the last launch or start'),
  operationId: textOrNull('Operation of the timeline; null if it has expired'),
  disks: z.array(disk).describe('Disks of the instance'),
  startCommand: text('Script that runs at every start; may be empty'),
  runImageCommand: flag("Whether it runs the image's own command, without Berth's start script"),
  billing,
  operatorAction,
});

export const operatorInstanceAnswer = answer('GetAnyInstanceAnswer', {
  accountId: text('Account of the owner'),
  username: text('User name of the owner'),
  instance: instance.describe('The instance'),
  timeline: z.array(stage).describe('Stages of the last launch or start'),
  operationId: textOrNull('Operation of the timeline; null if it has expired'),
  disks: z.array(disk).describe('Disks of the instance'),
  billing,
  operatorAction,
});

export const operationRoutes = {
  getInstance: readRoute('/instance/get', instanceIdBody, instanceGetAnswer, {
    summary: 'Return an instance with the timeline of its last start',
  }),
  getOperation: readRoute('/operation/get', operationIdBody, operationAnswer, {
    summary: 'Return an operation: stages, progress and the cause of a failure',
  }),
  listOperations: readRoute('/operation/list', operationListRequest, operationListAnswer, {
    compressed: true,
    summary: 'List the operations of one instance, volume, snapshot or image, newest first',
  }),
  cancelOperation: operationRoute('/operation/cancel', operationIdBody, operationAnswer, {
    summary: 'Cancel a running operation, where possible; the cancellation is an operation itself',
  }),
} as const;
