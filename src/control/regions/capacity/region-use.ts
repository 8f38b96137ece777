/** Stores capacity and use of each region every five minutes, for the charts of operators. */
import { USE_RETENTION_MS, USE_STEP_MS, useStepOf, type UsePoint } from '../../../domain/regions/region-use.ts';
import { startOfStep } from '../../../domain/compute/metrics.ts';
import { DAY_MS } from '../../../domain/kernel/durations.ts';
import { Refusal, regionNotFound } from '../../../domain/kernel/refusal.ts';
import { regionWithUsage } from '../../../store/tables/catalog.ts';
import { deleteRegionUseBefore, regionUseBetween, saveRegionUse } from '../../../store/tables/region-use.ts';
import type { TaskDeps, UseCaseDeps } from '../../kernel/ports.ts';
import type { Fleet, FleetRegion } from './fleet.ts';

export interface FleetHistoryRequest {
  regionId: string;
  fromUnixMs?: number | undefined;
  toUnixMs?: number | undefined;
}

export interface FleetHistory {
  /** Throws `field_value` for an end before the start or a start beyond the retention. */
  read(request: FleetHistoryRequest): Promise<{ stepMs: number; points: UsePoint[] }>;
}

export const makeFleetHistory = ({ store, time }: Pick<UseCaseDeps, 'store' | 'time'>): FleetHistory => ({
  async read({ regionId, fromUnixMs, toUnixMs }) {
    const toMs = toUnixMs ?? time.now();
    const fromMs = fromUnixMs ?? toMs - DAY_MS;
    if (fromMs >= toMs)
      throw new Refusal('field_value', 'field "fromUnixMs" is not before "toUnixMs"; send an earlier start');
    if (toMs - fromMs > USE_RETENTION_MS)
      throw new Refusal('field_value', 'field "fromUnixMs" is more than 90 days before "toUnixMs"; send a later start');
    if (!(await regionWithUsage(store.read, regionId))) throw regionNotFound(regionId);
    const stepMs = useStepOf(toMs - fromMs);
    return { stepMs, points: await regionUseBetween(store.read, regionId, { fromMs, toMs, stepMs }) };
  },
});

type UseDeps = Pick<TaskDeps, 'store' | 'time'> & { fleet: Pick<Fleet, 'read'> };

/** Call more often than each five minutes, so that a restart leaves no gap. */
export function makeRecordUse({ store, time, fleet }: UseDeps): () => Promise<void> {
  let recordedMs = Number.NaN;
  return async () => {
    const nowMs = time.now();
    const atMs = startOfStep(nowMs, USE_STEP_MS);
    if (atMs === recordedMs) return;
    const regions = await fleet.read();
    await store.write(async (tx) => {
      for (const one of regions) {
        await saveRegionUse(tx, { regionId: one.region.id, atMs }, useOf(one));
        await deleteRegionUseBefore(tx, one.region.id, nowMs - USE_RETENTION_MS);
      }
    });
    recordedMs = atMs;
  };
}

function useOf({ resources: { cpuMilli, memoryMiB, gpus }, pools }: FleetRegion) {
  const sum = (name: 'totalGB' | 'promisedGB' | 'usedGB'): number => pools.reduce((all, pool) => all + pool[name], 0);
  return {
    cpuMilli,
    memoryMiB,
    gpuMilli: {
      total: gpus.total * 1_000,
      promised: gpus.promised * 1_000,
      used: gpus.used === null ? null : gpus.used * 1_000,
    },
    diskGB: { total: sum('totalGB'), promised: sum('promisedGB'), used: sum('usedGB') },
  };
}
