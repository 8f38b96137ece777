/**
 * # Storage volumes
 *
 *     Pending ── created, empty or as a copy ──► Bound ◄── gone, and back ──► Lost
 *        └────── no space, or its source is gone ──► Failed, with the reason
 *     any ── delete ──► Terminating ── nothing is left ──► the row is deleted
 */
import { inGB, type DiskId, type VolumeType } from './disk.ts';
import type { RegionId, UserId, VolumeId } from '../kernel/ids.ts';
import { failOperation, type Operation } from '../compute/operation.ts';

export const volumeStatuses = ['Pending', 'Bound', 'Terminating', 'Lost', 'Failed'] as const;
export type VolumeStatus = (typeof volumeStatuses)[number];

export const volumeSourceKinds = ['volume', 'snapshot'] as const;
export type VolumeSourceKind = (typeof volumeSourceKinds)[number];

export interface VolumeSource extends DiskId {
  kind: VolumeSourceKind;
}

export interface Volume {
  id: VolumeId;
  ownerId: UserId;
  ownerName: string;
  createdAtMs: number;
  name: string;
  regionId: RegionId;
  type: VolumeType;
  sizeGB: number;
  usageBytes: number;
  source: VolumeSource | null;
  status: VolumeStatus;
  generation: number;
  operation: Operation;
}

export const publicVolume = (volume: Omit<Volume, 'operation' | 'source'>) => ({
  id: volume.id,
  volumeName: volume.name,
  region: volume.regionId,
  volumeType: volume.type,
  sizeGB: volume.sizeGB,
  usageGB: inGB(volume.usageBytes),
  status: volume.status,
  username: volume.ownerName,
});

export type PublicVolume = ReturnType<typeof publicVolume>;

/** Observed backing. `unknown` changes nothing. `sizeGB` is null where sizes aren't enforced. */
export type VolumeObservation =
  { kind: 'unknown'; reason: string } | { kind: 'absent' } | { kind: 'present'; sizeGB: number | null };

export type VolumeStep =
  { do: 'rest' | 'create' | 'grow' | 'destroy' | 'forget' } | { do: 'mark'; status: VolumeStatus };

/** A Terminating volume is destroyed even if absent: partial data is invisible. */
export function planVolume(
  { status, sizeGB, operation }: Pick<Volume, 'status' | 'sizeGB' | 'operation'>,
  observation: VolumeObservation,
  { destroyed }: { destroyed: boolean },
): VolumeStep {
  if (observation.kind === 'unknown') return { do: 'rest' };
  const absent = observation.kind === 'absent';
  switch (status) {
    case 'Pending':
      return absent ? { do: 'create' } : { do: 'mark', status: 'Bound' };
    case 'Terminating':
      return absent && destroyed ? { do: 'forget' } : { do: 'destroy' };
    case 'Bound':
      if (absent) return { do: 'mark', status: 'Lost' };
      if (observation.sizeGB !== null && observation.sizeGB < sizeGB) return { do: 'grow' };
      return operation.endedAtMs === null ? { do: 'mark', status: 'Bound' } : { do: 'rest' };
    case 'Lost':
      return absent ? { do: 'rest' } : { do: 'mark', status: 'Bound' };
    case 'Failed':
      return { do: 'rest' };
    default:
      return status satisfies never;
  }
}

/** `hasGB`: size that remains after a failed growth; null after a failed creation. */
export function failVolume(
  volume: Volume,
  failure: { reason: string; message: string; hasGB: number | null },
  nowMs: number,
): Volume {
  const { reason, message, hasGB } = failure;
  const error = { reason, message, whatToDo: hasGB === null ? RECREATE : GROW_LATER };
  const operation = failOperation(volume.operation, error, nowMs);
  return hasGB === null ? { ...volume, status: 'Failed', operation } : { ...volume, sizeGB: hasGB, operation };
}

const RECREATE =
  'Delete the volume, and create it again after the operator has fixed the cause. The source of a copy is unchanged.';
const GROW_LATER = 'The volume is unchanged. Expand it again after the operator has fixed the cause.';

/** Returns why the volume can't be used now, or null: Bound, with all its files. */
export function refusalOfVolumeUse({ status }: Pick<Volume, 'status'>): string | null {
  switch (status) {
    case 'Bound':
      return null;
    case 'Pending':
      return 'it is Pending: it is still being created; try again when it is Bound';
    case 'Lost':
      return 'it is Lost: its disk is gone; try again when the operator has restored the disk';
    case 'Failed':
      return 'it is Failed: it could not be created; delete it, and create another';
    case 'Terminating':
      return 'it is Terminating: it is being deleted; create another';
    default:
      return status satisfies never;
  }
}
