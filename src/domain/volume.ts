/** Storage volumes and the life of one: `Pending` → `Bound` → `Terminating` → gone; `Lost` when its backing is gone. */
import type { RegionId, UserId, VolumeId } from './ids.ts';
import type { Operation } from './operation.ts';

export const volumeTypes = ['filesystem', 'highspeedstorage'] as const;
export type VolumeType = (typeof volumeTypes)[number];

export const volumeStatuses = ['Pending', 'Bound', 'Terminating', 'Lost'] as const;
export type VolumeStatus = (typeof volumeStatuses)[number];

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
  status: VolumeStatus;
  generation: number;
  /** How its create or delete fares. */
  operation: Operation;
}

const BYTES_PER_GB = 1024 ** 3;

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

export const publicVolume = (volume: Omit<Volume, 'operation'>): PublicVolume => ({
  id: volume.id,
  volumeName: volume.name,
  region: volume.regionId,
  volumeType: volume.type,
  sizeGB: volume.sizeGB,
  usageGB: Math.round((volume.usageBytes / BYTES_PER_GB) * 1000) / 1000,
  status: volume.status,
  username: volume.ownerName,
});

/** What the backing of a volume was seen to be. Unknown is not absent: it changes nothing. */
export type VolumeObservation = { kind: 'unknown'; reason: string } | { kind: 'absent' } | { kind: 'present' };

export type VolumeStep =
  { do: 'rest' } | { do: 'create' } | { do: 'destroy' } | { do: 'forget' } | { do: 'mark'; status: VolumeStatus };

/** The next step of a volume. `create` and `destroy` are idempotent; `forget` removes the row once nothing backs it. */
export function planVolume({ status }: Pick<Volume, 'status'>, seen: VolumeObservation): VolumeStep {
  if (seen.kind === 'unknown') return { do: 'rest' };
  const absent = seen.kind === 'absent';
  switch (status) {
    case 'Pending':
      return absent ? { do: 'create' } : { do: 'mark', status: 'Bound' };
    case 'Terminating':
      return absent ? { do: 'forget' } : { do: 'destroy' };
    case 'Bound':
      return absent ? { do: 'mark', status: 'Lost' } : { do: 'rest' };
    case 'Lost':
      return absent ? { do: 'rest' } : { do: 'mark', status: 'Bound' };
    default:
      return status satisfies never;
  }
}
