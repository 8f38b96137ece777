/**
 * Reclaims spot instances for requests at full price in the capacity queue, and stops them after
 * the grace time. One transaction each, without the region's lock: a stop takes the locks in the
 * other order.
 */
import { noticeReasons } from '../../../domain/compute/notice.ts';
import { regionsWithQueue } from '../../../store/tables/capacity.ts';
import { regionsWithUsage } from '../../../store/tables/catalog.ts';
import { dueReclaims, writeReclaim, type Owned } from '../../../store/tables/tide-and-spot.ts';
import { planReclaims } from './plan-reclaims.ts';
import { type StopAutomatically, type TaskDeps, type UseCaseDeps, eachFew } from '../../kernel/ports.ts';

interface ReclaimDeps extends Pick<TaskDeps, 'store' | 'time' | 'log' | 'changes'>, Pick<UseCaseDeps, 'spotGraceMs'> {
  stopAutomatically: StopAutomatically;
}

const AT_ONCE = 500;

export function makeReclaimSpots({ store, time, log, changes, spotGraceMs, stopAutomatically }: ReclaimDeps) {
  const stop = (spot: Owned): Promise<unknown> =>
    stopAutomatically(spot, ({ reclaimAtMs }, nowMs) =>
      reclaimAtMs === null || reclaimAtMs > nowMs ? null : { cause: 'SpotReclaimed', why: { dueAt: reclaimAtMs } },
    ).catch((error: unknown) =>
      log.warn({ id: spot.id, err: error }, 'could not stop a reclaimed spot instance; Berth retries'),
    );

  const reclaim = (spot: Owned): Promise<void> => {
    const nowMs = time.now();
    const planned = { atMs: nowMs + spotGraceMs, reason: noticeReasons.SpotReclaimed };
    return store.write((tx) => writeReclaim(tx, spot, planned, nowMs));
  };

  return async (): Promise<void> => {
    const waited = await regionsWithQueue(store.read);
    for (const counted of waited.size > 0 ? await regionsWithUsage(store.read) : []) {
      if (counted.drain !== null || !waited.has(counted.region.id)) continue;
      const { reclaims } = await planReclaims(store.read, counted, time.now(), null);
      for (const spot of reclaims) await reclaim(spot);
      if (reclaims.length > 0) changes.publish({ subject: 'instance', isDue: true });
    }
    await eachFew(await dueReclaims(store.read, time.now(), AT_ONCE), stop);
  };
}
