/** The administrator's orphans (resources without a record) and background tasks. */
import { z } from 'zod';
import { diskKinds } from '../domain/storage/disk.ts';
import { orphanActions, orphanHandlings, orphanKinds } from '../domain/compute/orphan.ts';
import { answer, flag, integer, integerOrNull, label, plainText, request, text, textOrNull, unixMs } from './common.ts';

const orphan = answer(
  'Stray',
  {
    strayId: text('ID of the orphan'),
    kind: z.enum(orphanKinds).describe('Kind of resource'),
    regionId: text('Region ID'),
    engineName: text("The engine's name; `<pool>/<kind>/<id>` for a disk"),
    subjectId: text('ID on the label: instance, account of a network, source of an image, or disk'),
    ownerId: text('Account ID on the label'),
    ownerName: text('Account name; empty if the account is gone'),
    imageRef: text('Image of an instance; empty for other kinds'),
    running: flag('Whether the resource runs'),
    createdAt: integer("Creation time by the engine's clock, Unix milliseconds; 0 if unknown"),
    firstSeenAt: unixMs('First observation'),
    lastSeenAt: unixMs('Last observation'),
    handling: z.enum(orphanHandlings).describe('`policy` follows the setting of the operator'),
    deletedInSeconds: integerOrNull('Seconds until the deletion; null if it is not deleted automatically'),
    note: text('Result of the last attempt; may be empty'),
  },
  'Orphan: a resource without a record',
);

export const orphanListAnswer = answer('ListStraysAnswer', { strays: z.array(orphan).describe('All orphans') });

export const orphanHandleRequest = request('HandleStrayRequest', {
  strayId: plainText(1000).describe('ID of the orphan'),
  action: z.enum(orphanActions).describe('Action'),
  username: plainText(320).describe('New owner for `adopt`; by default the account on the label').optional(),
  instanceTypeId: plainText(100).describe('Instance type for `adopt`, for quota and billing').optional(),
  name: label(100).describe('Instance name for `adopt`; by default the instance ID').optional(),
});

export const orphanHandleAnswer = answer('HandleStrayAnswer', {
  strayId: text('ID of the orphan'),
  instanceId: textOrNull('Adopted instance; else null'),
});

const heldDisk = answer('HeldDisk', {
  kind: z.enum(diskKinds).describe('Kind of disk'),
  id: text('Volume, snapshot or instance ID'),
  regionId: text('Region ID'),
  ownerId: text('Account ID'),
  pool: text('Pool, which counts the disk until it is gone'),
  sizeGB: integer('Size in GB'),
  since: unixMs('First failed removal since the server started'),
  processes: z
    .array(answer('HostProcess', { pid: integer('Process ID on the host'), command: text('Name of the program') }))
    .describe('At most five processes that hold the disk; empty if none was found'),
});

export const heldDiskListAnswer = answer('ListHeldDisksAnswer', {
  disks: z.array(heldDisk).describe('Disks that are still held'),
});

const task = answer('Task', {
  name: text('Name of the task'),
  intervalMs: integer('Pause between two runs, in milliseconds'),
  running: flag('Whether the task runs now'),
  lastStartedAt: integerOrNull('Start of the last run, Unix milliseconds; null before the first'),
  lastDurationMs: integerOrNull('Duration of the last finished run in milliseconds; null before the first'),
  lastError: textOrNull('Error of the last run; null if the run succeeded'),
  runs: integer('Finished runs since the server started'),
  failures: integer('Failed runs since the server started'),
});

export const taskListAnswer = answer('ListTasksAnswer', { tasks: z.array(task).describe('Background tasks') });
