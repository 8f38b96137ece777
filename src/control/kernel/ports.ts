export type {
  Caller,
  Credential,
  Idempotency,
  LongRunning,
  Mutation,
  Pager,
  StartedOperation,
  TextPage,
} from './caller.ts';
export { CATALOG_FRESH_MS, type CatalogSnapshot } from './catalog-cache.ts';
export type { Change, PublishChanges } from './changes.ts';
export { makeConcurrencyLimit } from './concurrency-limit.ts';
export { DUE_WORK, type ActHandler } from './due-work.ts';
export { deadlineWithin, type StopAutomatically, type TaskDeps, type UseCaseDeps } from './deps.ts';
export { eachOf } from './each-of.ts';
export { idempotentWrite, requestReconcile, type WriteDeps } from './idempotent.ts';
export type { Log } from './logger.ts';
export { notifyAdministrators } from './notify-administrators.ts';
export { makeReminder, type Reminder } from './outage-log.ts';
export type { LeasedRow, ReconcileResult } from './reconcile-loop.ts';
export {
  makeEachRegion,
  refuseWithoutSaving,
  rootDiskFacts,
  type PoolDrivers,
  type RegionDrivers,
  type Regions,
} from './regions.ts';
export { makeTimedSeal, type Seal } from './seal.ts';
export { nextTurn, type Time } from './time.ts';
export { makeRegionTask, overlappingTask, task, type Task } from './scheduler.ts';
export type { Kernel } from './wire.ts';
