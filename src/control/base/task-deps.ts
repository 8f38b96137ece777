/**
 * Timed deeds take no input: each looks at the world and asks for the passes that it needs. `probe.ts` asks how engines are, `sweep.ts`
 * compares what they hold with the intents, `disk-strays.ts` what pools do, `handle-strays.ts` stops and deletes what has none, `measure.ts` measures
 * disks, `root-disks.ts` those of containers, `full-disks.ts` looks into those that are full, `unmount.ts` unmounts what rests, `tidy.ts` ends what has been kept long enough.
 */
import { withDeadline } from '../../async/abort.ts';
import type { Store } from '../../store/store.ts';
import type { Log } from './log.ts';
import type { Regions } from './regions.ts';
import type { Time } from './time.ts';
import type { PublishChanges } from './changes.ts';

/** What a timed deed works with. */
export interface TaskDeps {
  store: Store;
  regions: Regions;
  now: () => number;
  time: Time;
  log: Log;
  changes: PublishChanges;
  /** Aborted when control stops: what hangs must not keep it. */
  stopping: AbortSignal;
}

export const deadlineWithin = ({ stopping, time }: Pick<TaskDeps, 'stopping' | 'time'>, ms: number): AbortSignal =>
  withDeadline(stopping, ms, (delayMs) => time.deadline(delayMs));
