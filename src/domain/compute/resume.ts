import type { Instance } from './instance.ts';

export const resumableStops = ['OffPeakEnded', 'SpotReclaimed'] as const;
export type ResumableStop = (typeof resumableStops)[number];

/** The stop after which a Stopped instance starts again by its option `resume`; null: it stays. */
export function resumesAfter({
  desired,
  spec,
  observed,
}: Pick<Instance, 'desired' | 'spec' | 'observed'>): ResumableStop | null {
  if (!spec.resume || desired !== 'stopped' || observed.status !== 'Stopped') return null;
  return resumableStops.find((stop) => stop === observed.diagnosis) ?? null;
}
