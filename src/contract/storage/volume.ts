/** Storage volumes: docs/interface.md §2.2, §4.3 and §4.4. */
import { z } from 'zod';
import { consistencies, snapshotStatuses } from '../../domain/storage/snapshot.ts';
import { sizeLimits, volumeTypes } from '../../domain/storage/disk.ts';
import { volumeSourceKinds, volumeStatuses } from '../../domain/storage/volume.ts';
import {
  answer,
  decimal,
  id,
  oneOfText,
  pagerAnswer,
  pageRequest,
  request,
  text,
  unixMs,
  volumeName,
  wholeNumber,
} from '../common.ts';
import { newLabels, shownLabels, volumeLabelAnswer, volumeLabelRequest, volumeListRequest } from '../list-filters.ts';
import { operation } from '../compute/operation.ts';
import { decision, jsonRoute, operationRoute, readRoute } from '../route.ts';

export const snapshot = answer('Snapshot', {
  id: text('Snapshot ID'),
  snapshotName: text('Snapshot name'),
  volumeId: text('Volume ID'),
  volumeName: text('Name of the volume at the time'),
  region: text('Region ID'),
  volumeType: oneOfText(volumeTypes, 'Volume type'),
  sizeGB: decimal('Size of the volume at the time, reserved in the pool, in GB'),
  consistency: z
    .enum(consistencies)
    .describe('`atomic`: all files of one moment; `live`: files changed while they were copied'),
  status: z.enum(snapshotStatuses).describe('Status'),
  reason: text('Cause of `Failed`; else empty'),
  createdAt: unixMs('Creation time'),
  username: text('User name of the owner'),
});

export const snapshotCreateRequest = request('CreateSnapshotRequest', {
  volumeId: id.describe('Volume ID'),
  name: volumeName.describe('Snapshot name'),
});
export const snapshotCreateAnswer = answer('CreateSnapshotAnswer', { snapshot: snapshot.describe('The new snapshot') });
export const snapshotListAnswer = answer('ListSnapshotsAnswer', {
  snapshotList: z.array(snapshot).describe('Snapshots of the page'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

const MAX_VOLUME_GB = 100_000;

export const volume = answer('Volume', {
  id: text('Volume ID'),
  volumeName: text('Volume name'),
  region: text('Region ID'),
  volumeType: oneOfText(volumeTypes, 'Volume type'),
  sizeGB: decimal('Size in GB'),
  usageGB: decimal('Used space in GB, as last measured'),
  status: oneOfText(volumeStatuses, 'Status'),
  username: text('User name of the owner'),
  labels: shownLabels,
});

const sizeGB = wholeNumber(1, MAX_VOLUME_GB);
const name = volumeName.describe('Volume name, unique among the volumes of the account');

export const volumeCreateRequest = request('CreateVolumeRequest', {
  name,
  sizeGB: sizeGB.describe('Size in GB'),
  region: id.describe('Region ID'),
  volumeType: z.enum(volumeTypes).describe('Shared file storage or fast local block storage'),
  labels: newLabels,
});
export const volumeCreateAnswer = answer('VolumeAnswer', { volume: volume.describe('The volume') });

export const volumeListAnswer = answer('ListVolumesAnswer', {
  volumeList: z.array(volume).describe('Volumes of the page'),
  pager: pagerAnswer.describe('Page and length of the list'),
});

export const volumeIdBody = request('VolumeIdRequest', { id: id.describe('ID of the volume or snapshot') });
export const volumeIdAnswer = answer('VolumeIdAnswer', { id: text('ID of the volume or snapshot') });

export const sizeLimit = z
  .enum(sizeLimits)
  .describe('`hard`: writes beyond the size fail; `soft`: usage is measured only');

export const volumeExpandRequest = request('ExpandVolumeRequest', {
  id: id.describe('Volume ID'),
  sizeGB: sizeGB.describe('New size in GB; never below the current size'),
});
export const volumeExpandAnswer = answer('ExpandVolumeAnswer', { volume: volume.describe('The volume'), sizeLimit });

export const volumeRenameRequest = request('RenameVolumeRequest', { id: id.describe('Volume ID'), name });

export const volumeCopyRequest = request('CopyVolumeRequest', {
  id: id.describe('ID of the source: a volume or a snapshot'),
  name,
  sizeGB: sizeGB.describe('Size in GB; by default the size of the source').optional(),
  volumeType: z.enum(volumeTypes).describe('Volume type; by default the type of the source').optional(),
});

const source = answer('VolumeSource', {
  kind: z.enum(volumeSourceKinds).describe('Kind of source'),
  id: text('ID of the source'),
});
export const volumeGetAnswer = answer('GetVolumeAnswer', {
  volume: volume.describe('The volume'),
  pool: text('Pool that stores the volume'),
  sizeLimit,
  copies: z
    .enum(consistencies)
    .describe('Consistency of a snapshot taken now; `live`: files change while they are copied'),
  mountedBy: z.array(z.string()).describe('Instances that mount the volume and are not terminated'),
  snapshots: z.array(snapshot).describe('Snapshots of the volume, newest first, at most 100'),
  madeFrom: source.nullable().describe('Source of the copy; null for a volume that began empty'),
  operation: operation.describe('Last operation of the volume'),
});

export const volumeRoutes = {
  listVolumes: readRoute('/storage/volume/list', volumeListRequest, volumeListAnswer, {
    compressed: true,
    errors: 'plain',
    summary: "List the caller's volumes, newest first",
    source: 'docs/interface.md §4.3',
  }),
  labelVolume: jsonRoute('/storage/volume/label', volumeLabelRequest, volumeLabelAnswer, {
    summary: 'Replace the labels of a volume',
  }),
  createVolume: operationRoute('/storage/volume/create', volumeCreateRequest, volumeCreateAnswer, {
    errors: 'plain',
    summary: 'Create a storage volume',
    source: 'docs/interface.md §4.4',
  }),
  deleteVolume: operationRoute('/storage/volume/delete', volumeIdBody, volumeIdAnswer, {
    summary: 'Delete a storage volume that no instance mounts',
    source: decision('volumes'),
  }),
  getVolume: readRoute('/storage/volume/get', volumeIdBody, volumeGetAnswer, {
    summary: 'Return a volume with its mounts, snapshots and last operation',
  }),
  expandVolume: operationRoute('/storage/volume/expand', volumeExpandRequest, volumeExpandAnswer, {
    summary: 'Grow a volume, even while instances mount it; a volume never shrinks',
    source: decision('volumes'),
  }),
  renameVolume: jsonRoute('/storage/volume/rename', volumeRenameRequest, volumeCreateAnswer, {
    idempotent: true,
    summary: 'Rename a volume; instances keep showing the name of their launch',
  }),
  copyVolume: operationRoute('/storage/volume/copy', volumeCopyRequest, volumeCreateAnswer, {
    summary: 'Create a volume with the files of another, which may be mounted',
  }),
  createSnapshot: operationRoute('/storage/snapshot/create', snapshotCreateRequest, snapshotCreateAnswer, {
    summary: 'Take a snapshot of a volume, even while instances write to it',
  }),
  listSnapshots: readRoute('/storage/snapshot/list', pageRequest, snapshotListAnswer, {
    compressed: true,
    summary: "List the caller's snapshots, newest first",
  }),
  deleteSnapshot: operationRoute('/storage/snapshot/delete', volumeIdBody, volumeIdAnswer, {
    summary: 'Delete a snapshot; volumes restored from it stay',
  }),
  restoreSnapshot: operationRoute('/storage/snapshot/restore', volumeCopyRequest, volumeCreateAnswer, {
    summary: 'Create a volume with the files of a snapshot',
  }),
} as const;
