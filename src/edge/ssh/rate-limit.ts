/** How often something may be begun: `burst` at once, and then `perSecond`. */
export interface PaceLimits {
  burst: number;
  perSecond: number;
}

export interface Pace {
  take(): boolean;
}

export function makePace({ burst, perSecond }: PaceLimits, nowMs: () => number): Pace {
  let left = burst;
  let atMs = nowMs();
  return {
    take() {
      const sinceMs = nowMs() - atMs;
      atMs += sinceMs;
      left = Math.min(burst, left + (sinceMs / 1_000) * perSecond);
      if (left < 1) return false;
      left -= 1;
      return true;
    },
  };
}
