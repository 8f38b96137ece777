/** The administrator's orphans: resources without a record. */
import { z } from 'zod';
import { orphanActions, orphanHandlings, orphanKinds } from '../../domain/compute/orphan.ts';
import {
  answer,
  empty,
  flag,
  integer,
  integerOrNull,
  label,
  plainText,
  request,
  text,
  textOrNull,
  unixMs,
} from '../common.ts';
import { operatorReadRoute, operatorRoute } from '../route.ts';

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

export const orphanRoutes = {
  listStrays: operatorReadRoute('/admin/stray/list', empty, orphanListAnswer, {
    summary: 'List orphans: resources of this installation without a record (administrators)',
  }),
  handleStray: operatorRoute('/admin/stray/handle', orphanHandleRequest, orphanHandleAnswer, {
    summary:
      'Adopt, stop or delete an orphan; an adopted instance keeps its mounts while its container lives (administrators)',
  }),
} as const;
