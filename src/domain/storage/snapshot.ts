/**
 * # Snapshots
 *
 *     Pending ── copied ──► Ready
 *        └────── no space, or its volume is gone ──► Failed, with the reason
 *     any ── delete ──► Terminating ── nothing is left ──► the row is deleted
 *
 * Independent of the volume once copied; counted in the volume's pool at the volume's size.
 */
import type { RegionId, SnapshotId, UserId, VolumeId } from '../kernel/ids.ts';
import { failOperation, type Operation } from '../compute/operation.ts';
import type { VolumeObservation } from './volume.ts';
import type { VolumeType } from './disk.ts';

export const snapshotStatuses = ['Pending', 'Ready', 'Failed', 'Terminating'] as const;
export type SnapshotStatus = (typeof snapshotStatuses)[number];

/** `atomic`: one moment for all files; `live`: each file when the copy reached it. */
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
  volumeName: string;
  volumeType: VolumeType;
  sizeGB: number;
  consistency: Consistency;
  status: SnapshotStatus;
  generation: number;
  operation: Operation;
}

export const publicSnapshot = (snapshot: Snapshot) => ({
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

export type PublicSnapshot = ReturnType<typeof publicSnapshot>;

export type SnapshotStep = { do: 'rest' | 'copy' | 'ready' | 'destroy' | 'forget' };

export function planSnapshot(
  { status }: Pick<Snapshot, 'status'>,
  observation: VolumeObservation,
  { destroyed }: { destroyed: boolean },
): SnapshotStep {
  if (observation.kind === 'unknown') return { do: 'rest' };
  const absent = observation.kind === 'absent';
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

const RETRY_SNAPSHOT =
  'The volume is unchanged. Delete the snapshot, and take another after the operator has fixed the cause.';

export const failSnapshot = (
  snapshot: Snapshot,
  { reason, message }: { reason: string; message: string },
  nowMs: number,
): Snapshot => ({
  ...snapshot,
  status: 'Failed',
  operation: failOperation(snapshot.operation, { reason, message, whatToDo: RETRY_SNAPSHOT }, nowMs),
});
