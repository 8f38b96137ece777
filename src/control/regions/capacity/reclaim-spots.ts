/**
 * Reclaims spot instances for requests at full price in the capacity queue. One transaction each,
 * without the region's lock: a stop takes the locks in the other order.
 */
import { noticeReasons } from '../../../domain/compute/notice.ts';
import { regionsWithQueue } from '../../../store/tables/capacity.ts';
import { regionsWithUsage } from '../../../store/tables/catalog.ts';
import { writeReclaim, type Owned } from '../../../store/tables/tide-and-spot.ts';
import { planReclaims } from './plan-reclaims.ts';
import type { TaskDeps, UseCaseDeps } from '../../kernel/ports.ts';

type ReclaimDeps = Pick<TaskDeps, 'store' | 'time' | 'changes'> & Pick<UseCaseDeps, 'spotGraceMs'>;

export function makeReclaimSpots({ store, time, changes, spotGraceMs }: ReclaimDeps) {
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
  };
}
