import type { TimeSpan } from './usage-buckets.ts';

export interface Amortized extends TimeSpan {
  amountMicros: number;
}

/** Micro-dollars that an even use has used up by `atMs`, rounded down. */
export function usedMicros({ fromMs, untilMs, amountMicros }: Amortized, atMs: number): number {
  const usedMs = Math.min(Math.max(atMs, fromMs), untilMs) - fromMs;
  return Number((BigInt(amountMicros) * BigInt(usedMs)) / BigInt(untilMs - fromMs));
}
