import { gpuTimeOf, type GpuTime } from '../../../../domain/compute/gpu-time.ts';
import type { Db } from '../../../../store/store.ts';
import { gpuHolders } from '../../../../store/tables/instance-queries.ts';
import type { InstanceSamples } from './series.ts';

/** GPU time in samples by account; accounts without GPUs are left out. */
export async function gpuTimesOf(db: Db, samples: readonly InstanceSamples[]): Promise<Map<string, GpuTime>> {
  const byId = new Map(samples.map(({ id, spans }) => [id, spans]));
  const times = new Map<string, GpuTime>();
  for (const { id, ownerId, ...holds } of await gpuHolders(db, [...byId.keys()])) {
    const { heldMs, measuredMs, busyMs } = gpuTimeOf(byId.get(id) ?? [], holds);
    if (heldMs === 0) continue;
    const sum = times.get(ownerId) ?? { heldMs: 0, measuredMs: 0, busyMs: 0 };
    times.set(ownerId, {
      heldMs: sum.heldMs + heldMs,
      measuredMs: sum.measuredMs + measuredMs,
      busyMs: sum.busyMs + busyMs,
    });
  }
  return times;
}
