/**
 * The clock of open periods. When the system clock is set, `now` goes on as if it had not been,
 * until `applyStep` has moved the open periods: so a step is neither charged nor refunded.
 */
import type { Time } from '../kernel/ports.ts';

/** Smaller differences are the two clocks' drift. */
const STEP_MS = 2_000;

export interface MeterClock {
  now(): number;
  /** Milliseconds by which the system clock was set since the last call; 0 without a step. */
  stepMs(): number;
  /** The open periods have moved by the step; a negative one takes that back. */
  applyStep(stepMs: number): void;
  /** Sum of the applied steps. */
  appliedMs(): number;
}

export function makeMeterClock({ now, elapsed }: Pick<Time, 'now' | 'elapsed'>): MeterClock {
  let appliedMs = 0;
  const base = { atMs: now(), elapsedMs: elapsed() };
  const expectedMs = (): number => base.atMs + (elapsed() - base.elapsedMs);
  const stepMs = (): number => {
    const step = Math.round(now() - expectedMs());
    return Math.abs(step) > STEP_MS ? step : 0;
  };
  return {
    now: () => now() - stepMs(),
    stepMs,
    applyStep(stepMs) {
      base.atMs += stepMs;
      appliedMs += stepMs;
    },
    appliedMs: () => appliedMs,
  };
}
