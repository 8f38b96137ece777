/** The administrator's orphans (resources without a record) and background tasks. */
import { z } from 'zod';
import { orphanHandlings, orphanKinds } from '../domain/orphan.ts';
import { flag, label, named, plainText, text, unixMs, integer } from './common.ts';

const orphanActions = ['adopt', 'stop', 'delete'] as const;

const orphan = named(
  'Stray',
  z.strictObject({
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
    deletedInSeconds: z
      .number()
      .int()
      .nullable()
      .describe('Seconds until the deletion; null if it is not deleted automatically'),
    note: text('Result of the last attempt; may be empty'),
  }),
  'Orphan: a resource without a record',
);

export const orphanListAnswer = named(
  'ListStraysAnswer',
  z.strictObject({ strays: z.array(orphan).describe('All orphans') }),
);

export const orphanHandleRequest = named(
  'HandleStrayRequest',
  z.object({
    strayId: plainText(1000).describe('ID of the orphan'),
    action: z.enum(orphanActions).describe('Action'),
    username: plainText(320).describe('New owner for `adopt`; by default the account on the label').optional(),
    instanceTypeId: plainText(100).describe('Instance type for `adopt`, for quota and billing').optional(),
    name: label(100).describe('Instance name for `adopt`; by default the instance ID').optional(),
  }),
);

export const orphanHandleAnswer = named(
  'HandleStrayAnswer',
  z.strictObject({
    strayId: text('ID of the orphan'),
    instanceId: z.string().nullable().describe('Adopted instance; else null'),
  }),
);

const task = named(
  'Task',
  z.strictObject({
    name: text('Name of the task'),
    intervalMs: integer('Pause between two runs, in milliseconds'),
    running: flag('Whether the task runs now'),
    lastStartedAt: z
      .number()
      .int()
      .nullable()
      .describe('Start of the last run, Unix milliseconds; null before the first'),
    lastDurationMs: z
      .number()
      .int()
      .nullable()
      .describe('Duration of the last finished run in milliseconds; null before the first'),
    lastError: z.string().nullable().describe('Error of the last run; null if the run succeeded'),
    runs: integer('Finished runs since the server started'),
    failures: integer('Failed runs since the server started'),
  }),
);

export const taskListAnswer = z.strictObject({ tasks: z.array(task).describe('Background tasks') });
