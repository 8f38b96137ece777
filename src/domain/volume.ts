/**
 * Storage volumes and the life of one:
 *
 *     Pending ── made, empty or as a copy ──► Bound ◄── gone, and back ──► Lost
 *        └────── no room, or its source is gone ──► Failed, with the reason
 *     any ── delete ──► Terminating ── nothing of it is left ──► the row is gone
 */
import { inGB, type DiskId } from './disk.ts';
import type { RegionId, UserId, VolumeId } from './ids.ts';
import { failOperation, type Operation } from './operation.ts';

export const volumeTypes = ['filesystem', 'highspeedstorage'] as const;
export type VolumeType = (typeof volumeTypes)[number];

export const volumeStatuses = ['Pending', 'Bound', 'Terminating', 'Lost', 'Failed'] as const;
export type VolumeStatus = (typeof volumeStatuses)[number];

/** What a volume can be a copy of. */
export interface VolumeSource extends DiskId {
  kind: 'volume' | 'snapshot';
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
  /** The volume or snapshot that it is a copy of; null for one that began empty. */
  source: VolumeSource | null;
  status: VolumeStatus;
  generation: number;
  /** How its create, expand or delete fares. */
  operation: Operation;
}

/** The volume object of `interface.md` §2.2. */
export interface PublicVolume {
  id: string;
  volumeName: string;
  region: string;
  volumeType: string;
  sizeGB: number;
  usageGB: number;
  status: string;
  username: string;
}

export const publicVolume = (volume: Omit<Volume, 'operation' | 'source'>): PublicVolume => ({
  id: volume.id,
  volumeName: volume.name,
  region: volume.regionId,
  volumeType: volume.type,
  sizeGB: volume.sizeGB,
  usageGB: inGB(volume.usageBytes),
  status: volume.status,
  username: volume.ownerName,
});

/** What the backing of a volume was seen to be. Unknown is not absent: it changes nothing. `sizeGB` is null where sizes limit nothing. */
export type VolumeObservation =
  { kind: 'unknown'; reason: string } | { kind: 'absent' } | { kind: 'present'; sizeGB: number | null };

export type VolumeStep =
  { do: 'rest' | 'create' | 'grow' | 'destroy' | 'forget' } | { do: 'mark'; status: VolumeStatus };

/**
 * The next step of a volume. `create`, `grow` and `destroy` are idempotent. One that goes is destroyed even if nothing is seen of it, for
 * what is half made can't be seen; `destroyed`: that was done, and then nothing backs it any more, and its row can go.
 */
export function planVolume(
  { status, sizeGB, operation }: Pick<Volume, 'status' | 'sizeGB' | 'operation'>,
  seen: VolumeObservation,
  { destroyed }: { destroyed: boolean },
): VolumeStep {
  if (seen.kind === 'unknown') return { do: 'rest' };
  const absent = seen.kind === 'absent';
  switch (status) {
    case 'Pending':
      return absent ? { do: 'create' } : { do: 'mark', status: 'Bound' };
    case 'Terminating':
      return absent && destroyed ? { do: 'forget' } : { do: 'destroy' };
    case 'Bound':
      if (absent) return { do: 'mark', status: 'Lost' };
      if (seen.sizeGB !== null && seen.sizeGB < sizeGB) return { do: 'grow' };
      return operation.endedAtMs === null ? { do: 'mark', status: 'Bound' } : { do: 'rest' };
    case 'Lost':
      return absent ? { do: 'rest' } : { do: 'mark', status: 'Bound' };
    case 'Failed':
      return { do: 'rest' };
    default:
      return status satisfies never;
  }
}

/** The volume once its making, or its growth to more than `hasGB`, was given up. */
export function failVolume(
  volume: Volume,
  why: { reason: string; message: string; hasGB: number | null },
  nowMs: number,
): Volume {
  const { reason, message, hasGB } = why;
  const error = { reason, message, whatToDo: hasGB === null ? MAKE_ANEW : GROW_LATER };
  const operation = failOperation(volume.operation, error, nowMs);
  return hasGB === null ? { ...volume, status: 'Failed', operation } : { ...volume, sizeGB: hasGB, operation };
}

const MAKE_ANEW =
  'Delete it, and make it again once the operator has seen to what it says; what it was to be a copy of is as it was.';
const GROW_LATER = 'It is as it was. Expand it again once the operator has seen to what it says.';

/** What can't be done with it as it is, in words; null when it can: it has all its files, and they stay. */
export function refusalOfVolumeUse({ status }: Pick<Volume, 'status'>): string | null {
  switch (status) {
    case 'Bound':
      return null;
    case 'Pending':
      return 'it is Pending: it is still being made; try again once it is Bound';
    case 'Lost':
      return 'it is Lost: its backing is gone; try again once the operator has brought that back';
    case 'Failed':
      return 'it is Failed: it could not be made; delete it, and make another';
    case 'Terminating':
      return 'it is Terminating: it is being deleted; make another';
    default:
      return status satisfies never;
  }
}
