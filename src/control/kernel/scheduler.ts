/**
 * Runs background tasks at their intervals, and records each run. After failures in a row a task
 * pauses for 1, 2, 4 … intervals, at most 30 s or one interval. Tasks that overlap go on: a region
 * that fails must not slow the others.
 */
import { makeBackOff, type BackOff } from '../../async/retry.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import type { Hold } from '../../store/db/database-lock.ts';
import type { TaskDeps } from './deps.ts';
import { makeEachRegion, type RegionDrivers, type Regions } from './regions.ts';

/** Takes no input: each run observes the world and makes rows due. */
export interface Task {
  name: string;
  intervalMs: number;
  /** Begins a run while others are under way: for `makeEachRegion`. Default: one at a time. */
  overlaps?: boolean;
  run(): Promise<void>;
}

export const task = (name: string, intervalMs: number, run: () => Promise<void>): Task => ({ name, intervalMs, run });

export const overlappingTask = (...given: Parameters<typeof task>): Task => ({ ...task(...given), overlaps: true });

export const makeRegionTask =
  (regions: Regions) =>
  (name: string, intervalMs: number, work: (drivers: RegionDrivers) => Promise<void>): Task =>
    overlappingTask(name, intervalMs, makeEachRegion(regions, work));

export interface TaskStatus {
  name: string;
  intervalMs: number;
  running: boolean;
  lastStartedAt: number | null;
  lastDurationMs: number | null;
  lastError: string | null;
  runs: number;
  failures: number;
}

export interface Scheduler {
  start(tasks: readonly Task[]): void;
  /** Runs the task now, and once more after the runs under way. */
  runSoon(name: string): void;
  statuses(): TaskStatus[];
  stop(): Promise<void>;
}

interface Entry {
  task: Task;
  status: TaskStatus;
  backOff: BackOff;
  /** By `Time.elapsed`. */
  pausesUntilMs: number;
  underWay: number;
  isRequested: boolean;
}

const LONGEST_PAUSE_MS = 30_000;

interface SchedulerDeps extends Pick<TaskDeps, 'time' | 'log' | 'stopping'> {
  hold: Hold;
}

/** No run starts after `stopping`, nor without the hold of the database. */
export function makeScheduler({ time, log, stopping, hold }: SchedulerDeps): Scheduler {
  const entries = new Map<string, Entry>();
  const intervals: (() => void)[] = [];
  const underWay = new Set<Promise<void>>();

  const runOnce = async (entry: Entry): Promise<void> => {
    const { task, status } = entry;
    const startedMs = time.elapsed();
    entry.underWay += 1;
    status.running = true;
    status.lastStartedAt = time.now();
    try {
      await task.run();
      status.lastError = null;
      entry.backOff.reset();
      entry.pausesUntilMs = -Infinity;
    } catch (error) {
      status.failures += 1;
      status.lastError = errorText(error);
      const pauseMs = task.overlaps === true ? task.intervalMs : entry.backOff.next();
      // Timers fire a little early or late.
      entry.pausesUntilMs = startedMs + pauseMs - task.intervalMs / 2;
      log.warn({ err: error, task: task.name, pauseMs }, 'a background task failed; Berth retries it');
    } finally {
      entry.underWay -= 1;
      status.running = entry.underWay > 0;
      status.runs += 1;
      status.lastDurationMs = Math.round(time.elapsed() - startedMs);
    }
  };

  const run = (entry: Entry): void => {
    const { task, status } = entry;
    if ((status.running && task.overlaps !== true) || stopping.aborted || !hold.isHeld()) return;
    entry.isRequested &&= status.running;
    const promise: Promise<void> = runOnce(entry).finally(() => {
      underWay.delete(promise);
      if (entry.isRequested && !status.running) run(entry);
    });
    underWay.add(promise);
  };

  return {
    start(tasks) {
      for (const task of tasks) {
        const { name, intervalMs } = task;
        const never = { lastDurationMs: null, lastError: null, lastStartedAt: null };
        const status = { name, intervalMs, running: false, runs: 0, failures: 0, ...never };
        const backOff = makeBackOff({ firstMs: intervalMs, maxMs: Math.max(intervalMs, LONGEST_PAUSE_MS) });
        const entry: Entry = { task, status, backOff, pausesUntilMs: -Infinity, underWay: 0, isRequested: false };
        entries.set(name, entry);
        const tick = (): void => (time.elapsed() < entry.pausesUntilMs ? undefined : run(entry));
        intervals.push(time.every(intervalMs, tick));
      }
    },
    runSoon(name) {
      const entry = entries.get(name);
      if (!entry) return;
      entry.isRequested = true;
      run(entry);
    },
    statuses: () => [...entries.values()].map(({ status }) => ({ ...status })),
    async stop() {
      for (const end of intervals) end();
      await Promise.all(underWay);
    },
  };
}
