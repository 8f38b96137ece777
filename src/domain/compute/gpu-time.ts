/** Time of GPUs held by an account, from samples of its instances. */
import { figureNames, gpuFigureNames, SAMPLE_MS, type MetricsSpan } from './metrics.ts';

/** Milliseconds of one GPU; part of a card counts as its share. */
export interface GpuTime {
  heldMs: number;
  /** Part of `heldMs` with known utilization. */
  measuredMs: number;
  /** Utilization × measured time. */
  busyMs: number;
}

const BUSY = gpuFigureNames.indexOf('busyPercent');

export function gpuTimeOf(samples: readonly MetricsSpan[], { gpus, share }: { gpus: number; share: number }): GpuTime {
  const busy = samples.flatMap(({ mean }) =>
    Array.from(
      { length: gpus },
      (_, nth) => mean[figureNames.length + nth * gpuFigureNames.length + BUSY] ?? Number.NaN,
    ),
  );
  const known = busy.filter((percent) => !Number.isNaN(percent));
  const sampleMs = SAMPLE_MS * share;
  return {
    heldMs: Math.round(busy.length * sampleMs),
    measuredMs: Math.round(known.length * sampleMs),
    busyMs: Math.round((known.reduce((sum, percent) => sum + percent, 0) / 100) * sampleMs),
  };
}
