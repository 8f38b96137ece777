/** Observations of disks from their objects; pure. */
import type { PersistentVolumeClaim, VolumeSnapshot } from '../../kubernetes/api-objects.ts';
import type { DiskObservation } from '../contract.ts';
import { bytesOfQuantity, gbOfQuantity } from './claim-manifests.ts';

export const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

export const isReady = ({ status }: VolumeSnapshot): boolean => status?.readyToUse === true;

/**
 * An unbound claim is complete if its volume is made at the first use: unless it gets the content
 * of a snapshot, which must not be removed before.
 */
export const isComplete = (claim: PersistentVolumeClaim, { bindsAtUse }: { bindsAtUse: boolean }): boolean =>
  isBound(claim) || (bindsAtUse && claim.status?.phase !== 'Lost' && claim.spec?.dataSource === undefined);

/** A claim whose volume was removed has lost its data: `Lost`. */
export function observedClaim(claim: PersistentVolumeClaim | null, binding: { bindsAtUse: boolean }): DiskObservation {
  if (claim === null) return { kind: 'absent' };
  if (claim.metadata?.deletionTimestamp !== undefined) return { kind: 'present', sizeGB: null };
  if (!isComplete(claim, binding)) return { kind: 'absent' };
  return { kind: 'present', sizeGB: gbOfQuantity(capacityOf(claim)) };
}

export const observedSnapshot = (snapshot: VolumeSnapshot | null): DiskObservation => {
  if (snapshot === null) return { kind: 'absent' };
  if (snapshot.metadata?.deletionTimestamp !== undefined) return { kind: 'present', sizeGB: null };
  return isReady(snapshot)
    ? { kind: 'present', sizeGB: gbOfQuantity(snapshot.status?.restoreSize) }
    : { kind: 'absent' };
};

/** Size of the volume; the requested size of a claim without one. */
const capacityOf = (claim: PersistentVolumeClaim): string | undefined =>
  isBound(claim) ? claim.status?.capacity?.['storage'] : requestOf(claim);

export const requestOf = ({ spec }: PersistentVolumeClaim): string | undefined =>
  spec?.resources?.requests?.['storage'];

export const hasBytes = (claim: PersistentVolumeClaim, bytes: number): boolean =>
  (bytesOfQuantity(claim.status?.capacity?.['storage']) ?? 0) >= bytes;

/** Where a resize stands that the controller has begun. */
export function resizeState({ status }: PersistentVolumeClaim): { waitsForPod: boolean; failed: string | null } {
  const conditions = status?.conditions ?? [];
  const waitsForPod = conditions.some(({ type, status: met }) => type === 'FileSystemResizePending' && met === 'True');
  const infeasible = status?.allocatedResourceStatuses?.['storage']?.endsWith('Infeasible') === true;
  const error = conditions.find(({ type, status: met }) => type.endsWith('ResizeError') && met === 'True');
  return { waitsForPod, failed: infeasible ? (error?.message ?? 'the driver refuses the size') : null };
}
