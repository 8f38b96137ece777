/** Last observation of each region's containers. After an outage, earlier runs are unknown. */
import type { Db } from '../../store/store.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import { lastSweeps } from '../../store/tables/watches.ts';
import type { MeterClock } from './meter-clock.ts';

export interface SeenInstances {
  running?: ReadonlySet<string>;
  /** Their state is not known to the engine, as of a lost node. */
  unseen?: ReadonlySet<string>;
  /** `Running` in the store, and not on the engine, or perhaps another run there. */
  missing?: ReadonlySet<string>;
}

export interface SeenRuns {
  takeOver(db: Db): Promise<void>;
  /** Last sweep of the region's engine; null: none since the engine was lost. */
  seenAtMs(regionId: string): number | null;
  saw(regionId: string, atMs: number, seen?: SeenInstances): void;
  isUnseen(regionId: string, instanceId: string): boolean;
  isRunning(regionId: string, instanceId: string): boolean;
  /** False: already lost. */
  lost(regionId: string): boolean;
  /**
   * False for a run of before the engine or this process was away, until a sweep has seen it. Free
   * runs have no bookings that would tell; nobody pays for one whose engine answers.
   */
  isKnown(period: Pick<PeriodRow, 'meter' | 'regionId' | 'subjectId' | 'chargedUntilMs' | 'isCharging'>): boolean;
}

interface Sweep extends Required<SeenInstances> {
  atMs: number;
  /** By this process, since the engine was lost. */
  isOwn: boolean;
}

const none: ReadonlySet<string> = new Set();

export function makeSeenRuns(clock: MeterClock, answers: (regionId: string) => boolean): SeenRuns {
  // Without the steps of the clock.
  const startedAtMs = clock.now();
  const sweeps = new Map<string, Sweep>();
  const lost = new Map<string, number>();
  const isUnseen = (regionId: string, id: string): boolean => sweeps.get(regionId)?.unseen.has(id) === true;
  const hasSeen = (regionId: string, id: string): boolean => {
    const sweep = sweeps.get(regionId);
    return sweep?.isOwn === true && !sweep.missing.has(id);
  };
  return {
    async takeOver(db) {
      const { seen, unseen } = await lastSweeps(db);
      for (const { regionId, sinceMs: atMs } of seen) {
        const ids = unseen.filter((one) => one.regionId === regionId).map(({ subjectId }) => subjectId);
        sweeps.set(regionId, { atMs, isOwn: false, running: none, missing: none, unseen: new Set(ids) });
      }
    },
    seenAtMs(regionId) {
      const sweep = answers(regionId) ? sweeps.get(regionId) : undefined;
      return sweep === undefined ? null : sweep.atMs + clock.appliedMs();
    },
    isUnseen,
    isRunning: (regionId, id) => sweeps.get(regionId)?.running.has(id) === true,
    saw(regionId, atMs, { running = none, unseen = none, missing = none } = {}) {
      const before = sweeps.get(regionId);
      // Later sweeps tell nothing about a run that ended in the absence.
      const stillMissing = before?.isOwn === true ? before.missing.difference(running) : missing;
      sweeps.set(regionId, { atMs: atMs - clock.appliedMs(), isOwn: true, running, unseen, missing: stillMissing });
    },
    lost(regionId) {
      lost.set(regionId, clock.now() - clock.appliedMs());
      return sweeps.delete(regionId);
    },
    isKnown: ({ meter, regionId, subjectId, chargedUntilMs, isCharging }) =>
      meter !== 'compute' ||
      (!isUnseen(regionId, subjectId) &&
        answers(regionId) &&
        (isCharging === 0 ||
          hasSeen(regionId, subjectId) ||
          chargedUntilMs - clock.appliedMs() >= (lost.get(regionId) ?? startedAtMs))),
  };
}
