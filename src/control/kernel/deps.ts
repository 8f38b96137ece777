/** Dependencies that use cases share, and those that background tasks share. */
import { withDeadline } from '../../async/abort.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import type { Cause } from '../../domain/compute/operation.ts';
import type { Store } from '../../store/store.ts';
import type { CatalogSnapshot } from './catalog-cache.ts';
import type { PublishChanges } from './changes.ts';
import type { WriteDeps } from './idempotent.ts';
import type { Log } from './logger.ts';
import type { Regions } from './regions.ts';
import type { Time } from './time.ts';

export interface UseCaseDeps extends WriteDeps {
  regions: Regions;
  readCatalog: () => Promise<CatalogSnapshot>;
  randomUuid: () => string;
  changes: PublishChanges;
  /** From the reclaim of a spot instance to its stop. */
  spotGraceMs: number;
}

/** Stops a running instance if `decide`, called with the locked row, wants it. True if stopped. */
export type StopAutomatically = (
  of: { id: string; ownerId: string },
  decide: (instance: Instance, nowMs: number) => { cause: Cause; why?: object; reason?: string } | null,
) => Promise<boolean>;

/** A task takes no input: each run observes the world and makes due what needs a reconcile. */
export interface TaskDeps {
  store: Store;
  regions: Regions;
  time: Time;
  log: Log;
  changes: PublishChanges;
  stopping: AbortSignal;
}

export const deadlineWithin = ({ stopping, time }: Pick<TaskDeps, 'stopping' | 'time'>, ms: number): AbortSignal =>
  withDeadline(stopping, ms, (delayMs) => time.deadline(delayMs));
