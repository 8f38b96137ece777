/** Last observation of each region's containers. After an outage, earlier runs are unknown. */
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { MeterClock } from './meter-clock.ts';

export interface SeenRuns {
  /** Last sweep of the region's engine; null: none since the engine was lost. */
  seenAtMs(regionId: string): number | null;
  /** `unseen`: instances whose state the engine does not know, as of a lost node. */
  saw(regionId: string, atMs: number, unseen?: ReadonlySet<string>): void;
  isUnseen(regionId: string, instanceId: string): boolean;
  lost(regionId: string): void;
  /** False for a run of before the engine or this process was away, until a sweep has seen it. */
  isKnown(period: Pick<PeriodRow, 'meter' | 'regionId' | 'subjectId' | 'chargedUntilMs'>): boolean;
}

export function makeSeenRuns(clock: MeterClock, answers: (regionId: string) => boolean): SeenRuns {
  // Without the steps of the clock.
  const startedAtMs = clock.now();
  const seen = new Map<string, number>();
  const lost = new Map<string, number>();
  const unseenIn = new Map<string, ReadonlySet<string>>();
  const isUnseen = (regionId: string, id: string): boolean => unseenIn.get(regionId)?.has(id) === true;
  const seenAtMs = (regionId: string): number | null => {
    const atMs = answers(regionId) ? seen.get(regionId) : undefined;
    return atMs === undefined ? null : atMs + clock.appliedMs();
  };
  return {
    seenAtMs,
    isUnseen,
    saw(regionId, atMs, unseen = new Set()) {
      seen.set(regionId, atMs - clock.appliedMs());
      unseenIn.set(regionId, unseen);
    },
    lost(regionId) {
      seen.delete(regionId);
      lost.set(regionId, clock.now() - clock.appliedMs());
    },
    isKnown: ({ meter, regionId, subjectId, chargedUntilMs }) =>
      meter !== 'compute' ||
      (!isUnseen(regionId, subjectId) &&
        (seenAtMs(regionId) !== null ||
          (answers(regionId) && chargedUntilMs - clock.appliedMs() >= (lost.get(regionId) ?? startedAtMs)))),
  };
}
