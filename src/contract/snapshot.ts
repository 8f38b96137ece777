/** Snapshots of volumes. */
import { z } from 'zod';
import { consistencies, snapshotStatuses } from '../domain/snapshot.ts';
import { decimal, id, named, pagerAnswer, text, unixMs, volumeName } from './common.ts';

export const snapshot = named(
  'Snapshot',
  z.strictObject({
    id: text('Snapshot ID'),
    snapshotName: text('Snapshot name'),
    volumeId: text('Volume ID'),
    volumeName: text('Name of the volume at the time'),
    region: text('Region ID'),
    volumeType: text('Volume type'),
    sizeGB: decimal('Size of the volume at the time, reserved in the pool, in GB'),
    consistency: z
      .enum(consistencies)
      .describe('`atomic`: all files of one moment; `live`: files changed while they were copied'),
    status: z.enum(snapshotStatuses).describe('Status'),
    reason: text('Cause of `Failed`; else empty'),
    createdAt: unixMs('Creation time'),
    username: text('User name of the owner'),
  }),
);

export const snapshotCreateRequest = named(
  'CreateSnapshotRequest',
  z.object({ volumeId: id.describe('Volume ID'), name: volumeName.describe('Snapshot name') }),
);
export const snapshotCreateAnswer = named(
  'CreateSnapshotAnswer',
  z.strictObject({ snapshot: snapshot.describe('The new snapshot') }),
);
export const snapshotListAnswer = named(
  'ListSnapshotsAnswer',
  z.strictObject({
    snapshotList: z.array(snapshot).describe('Snapshots of the page'),
    pager: pagerAnswer.describe('Page and length of the list'),
  }),
);
