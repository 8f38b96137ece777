/** Last observation of each region's containers. After an outage, earlier runs are unknown. */
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { MeterClock } from './meter-clock.ts';

export interface SeenInstances {
  running?: ReadonlySet<string>;
  /** Their state is not known to the engine, as of a lost node. */
  unseen?: ReadonlySet<string>;
}

export interface SeenRuns {
  /** Last sweep of the region's engine; null: none since the engine was lost. */
  seenAtMs(regionId: string): number | null;
  saw(regionId: string, atMs: number, seen?: SeenInstances): void;
  isUnseen(regionId: string, instanceId: string): boolean;
  isRunning(regionId: string, instanceId: string): boolean;
  lost(regionId: string): void;
  /**
   * False for a run of before the engine or this process was away, until a sweep has seen it. Free
   * runs have no bookings that would tell; nobody pays for one whose engine answers.
   */
  isKnown(period: Pick<PeriodRow, 'meter' | 'regionId' | 'subjectId' | 'chargedUntilMs' | 'isCharging'>): boolean;
}

export function makeSeenRuns(clock: MeterClock, answers: (regionId: string) => boolean): SeenRuns {
  // Without the steps of the clock.
  const startedAtMs = clock.now();
  const seen = new Map<string, number>();
  const lost = new Map<string, number>();
  const instancesIn = new Map<string, SeenInstances>();
  const isUnseen = (regionId: string, id: string): boolean => instancesIn.get(regionId)?.unseen?.has(id) === true;
  const seenAtMs = (regionId: string): number | null => {
    const atMs = answers(regionId) ? seen.get(regionId) : undefined;
    return atMs === undefined ? null : atMs + clock.appliedMs();
  };
  return {
    seenAtMs,
    isUnseen,
    isRunning: (regionId, id) => instancesIn.get(regionId)?.running?.has(id) === true,
    saw(regionId, atMs, instances = {}) {
      seen.set(regionId, atMs - clock.appliedMs());
      instancesIn.set(regionId, instances);
    },
    lost(regionId) {
      seen.delete(regionId);
      lost.set(regionId, clock.now() - clock.appliedMs());
    },
    isKnown: ({ meter, regionId, subjectId, chargedUntilMs, isCharging }) =>
      meter !== 'compute' ||
      (!isUnseen(regionId, subjectId) &&
        answers(regionId) &&
        (isCharging === 0 ||
          seenAtMs(regionId) !== null ||
          chargedUntilMs - clock.appliedMs() >= (lost.get(regionId) ?? startedAtMs))),
  };
}
