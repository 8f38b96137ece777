/**
 * Dependencies of background tasks. A task takes no input: each run observes the world and makes
 * due what needs a reconcile.
 */
import { withDeadline } from '../../async/abort.ts';
import type { Store } from '../../store/store.ts';
import type { Log } from './log.ts';
import type { Regions } from './regions.ts';
import type { Time } from './time.ts';
import type { PublishChanges } from './changes.ts';

export interface TaskDeps {
  store: Store;
  regions: Regions;
  now: () => number;
  time: Time;
  log: Log;
  changes: PublishChanges;
  stopping: AbortSignal;
}

export const deadlineWithin = ({ stopping, time }: Pick<TaskDeps, 'stopping' | 'time'>, ms: number): AbortSignal =>
  withDeadline(stopping, ms, (delayMs) => time.deadline(delayMs));
