/**
 * Snapshots of volumes and the life of one:
 *
 *     Pending ── copied ──► Ready
 *        └────── no room, or its volume is gone ──► Failed, with the reason
 *     any ── delete ──► Terminating ── nothing of it is left ──► the row is gone
 *
 * It stands alone: its volume may change and go. It lies in its volume's pool, and is counted there at the volume's size.
 */
import type { RegionId, SnapshotId, UserId, VolumeId } from './ids.ts';
import { failOperation, type Operation } from './operation.ts';
import type { VolumeObservation, VolumeType } from './volume.ts';

export const snapshotStatuses = ['Pending', 'Ready', 'Failed', 'Terminating'] as const;
export type SnapshotStatus = (typeof snapshotStatuses)[number];

/** `atomic`: all of one moment, whatever was being written; `live`: each file as it was when the copy came to it. */
export const consistencies = ['atomic', 'live'] as const;
export type Consistency = (typeof consistencies)[number];

export interface Snapshot {
  id: SnapshotId;
  ownerId: UserId;
  ownerName: string;
  createdAtMs: number;
  name: string;
  regionId: RegionId;
  volumeId: VolumeId;
  /** As it was called then. */
  volumeName: string;
  volumeType: VolumeType;
  sizeGB: number;
  consistency: Consistency;
  status: SnapshotStatus;
  generation: number;
  /** How its create or delete fares. */
  operation: Operation;
}

export interface PublicSnapshot {
  id: string;
  snapshotName: string;
  volumeId: string;
  volumeName: string;
  region: string;
  volumeType: string;
  sizeGB: number;
  consistency: Consistency;
  status: SnapshotStatus;
  /** Why it Failed; else ''. */
  reason: string;
  createdAt: number;
  username: string;
}

export const publicSnapshot = (snapshot: Snapshot): PublicSnapshot => ({
  id: snapshot.id,
  snapshotName: snapshot.name,
  volumeId: snapshot.volumeId,
  volumeName: snapshot.volumeName,
  region: snapshot.regionId,
  volumeType: snapshot.volumeType,
  sizeGB: snapshot.sizeGB,
  consistency: snapshot.consistency,
  status: snapshot.status,
  reason: snapshot.status === 'Failed' ? (snapshot.operation.error?.message ?? '') : '',
  createdAt: snapshot.createdAtMs,
  username: snapshot.ownerName,
});

export type SnapshotStep = { do: 'rest' | 'copy' | 'ready' | 'destroy' | 'forget' };

/** The next step of a snapshot, as `planVolume` is that of a volume. */
export function planSnapshot(
  { status }: Pick<Snapshot, 'status'>,
  seen: VolumeObservation,
  { destroyed }: { destroyed: boolean },
): SnapshotStep {
  if (seen.kind === 'unknown') return { do: 'rest' };
  const absent = seen.kind === 'absent';
  switch (status) {
    case 'Pending':
      return { do: absent ? 'copy' : 'ready' };
    case 'Terminating':
      return { do: absent && destroyed ? 'forget' : 'destroy' };
    case 'Ready':
    case 'Failed':
      return { do: 'rest' };
    default:
      return status satisfies never;
  }
}

const DELETE_IT = 'Delete it, and take another once the operator has seen to what it says; the volume is as it was.';

export const failSnapshot = (
  snapshot: Snapshot,
  { reason, message }: { reason: string; message: string },
  nowMs: number,
): Snapshot => ({
  ...snapshot,
  status: 'Failed',
  operation: failOperation(snapshot.operation, { reason, message, whatToDo: DELETE_IT }, nowMs),
});
