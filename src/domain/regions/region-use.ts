/** Capacity and use of a region over time. */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../kernel/durations.ts';

export interface UseOfResource {
  total: number;
  promised: number;
  /** Null without samples. */
  used: number | null;
}

export const useResources = ['cpuMilli', 'memoryMiB', 'gpuMilli', 'diskGB'] as const;

export type RegionUse = Record<(typeof useResources)[number], UseOfResource>;

export interface UsePoint extends RegionUse {
  atMs: number;
}

export const USE_STEP_MS = 5 * MINUTE_MS;
export const USE_RETENTION_MS = 90 * DAY_MS;
const LONGEST_STEP_MS = 6 * HOUR_MS;
const MAX_POINTS = 400;

/** The shortest step with at most 400 points. */
export const useStepOf = (spanMs: number): number =>
  [USE_STEP_MS, HOUR_MS].find((stepMs) => spanMs / stepMs <= MAX_POINTS) ?? LONGEST_STEP_MS;
