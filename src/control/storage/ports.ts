export { engineAnswers, withCopyDeadline } from './copy-deadline.ts';
export {
  allotMore,
  allotOwnDisks,
  locateDisks,
  poolForType,
  poolNamed,
  requireLocatedDisks,
  resizeOwnDisks,
  withDiskMutex,
  type LocatedDisk,
} from './disks.ts';
export type { FreeSpaceMonitor } from './free-space.ts';
export type { HeldDisks } from './held-disks.ts';
export { RETRIES_EXHAUSTED, destroyDisk, isStorageAway, permanentFailure, type Failure } from './reconcile-disk.ts';
export { makeSnapshots } from './snapshots.ts';
export { makeVolumes, type VolumeDeps } from './volumes.ts';
export type { StorageParts } from './wire.ts';
