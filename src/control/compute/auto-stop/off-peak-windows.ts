/**
 * Follows the off-peak windows of a region for one instance: announces the end of a window, stops
 * what it leaves running, and wakes what waits for another time than the next window.
 */
import type { Instance } from '../../../domain/compute/instance.ts';
import { noticeReasons } from '../../../domain/compute/notice.ts';
import { timedActs } from '../../../domain/compute/timed-acts.ts';
import { ENDING_NOTICE_MS, NEVER_MS, nextWindow } from '../../../domain/regions/off-peak.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { instanceFromRow, lockInstance, makeDue, writeNotice } from '../../../store/tables/instances.ts';
import type { ActHandler, StopAutomatically, TaskDeps, UseCaseDeps } from '../../kernel/ports.ts';

interface OffPeakDeps extends Pick<TaskDeps, 'store' | 'time' | 'changes'>, Pick<UseCaseDeps, 'readCatalog'> {
  stopAutomatically: StopAutomatically;
}

export const makeFollowWindow =
  ({ store, time, changes, readCatalog, stopAutomatically }: OffPeakDeps): ActHandler =>
  async (owned) => {
    const { id, ownerId } = owned;
    const { regions } = await readCatalog();
    const { next, mustEnd } = await store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      const instance = row && instanceFromRow(row);
      if (!instance || timedActs(instance).window === null) return { next: null, mustEnd: false };
      const offPeak = regions.get(row.regionId)?.offPeak ?? null;
      const nowMs = time.now();
      const { opensAtMs, closesAtMs } = (offPeak && nextWindow(offPeak, nowMs)) ?? noWindow;
      const isOpen = opensAtMs <= nowMs;
      const { notBeforeMs } = instance;
      const waitsWrongly = isOpen ? (notBeforeMs ?? 0) > nowMs : !holds(instance) && notBeforeMs !== opensAtMs;
      if (waitsWrongly) await makeDue(tx, [id], nowMs);
      if (!isOpen) return { next: opensAtMs, mustEnd: holds(instance) };
      const noticeAtMs = (closesAtMs ?? NEVER_MS) - ENDING_NOTICE_MS;
      const endsAtMs = noticeAtMs <= nowMs ? closesAtMs : null;
      if (holds(instance) && instance.windowEndsAtMs !== endsAtMs) {
        await writeNotice(tx, instance, { windowEndsAtMs: endsAtMs }, nowMs);
        const data =
          endsAtMs === null ? { stopsAtUnixMs: null } : { stopsAtUnixMs: endsAtMs, reason: noticeReasons.OffPeakEnded };
        await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.offPeakEnding', subjectId: id, data });
      }
      return { next: endsAtMs ?? noticeAtMs, mustEnd: false };
    });
    // Also for the loop, which sleeps through a step of the clock.
    changes.publish({ subject: 'instance', id, isDue: true });
    const isEnded = mustEnd && (await stopAutomatically(owned, endOf));
    return isEnded ? null : next;
  };

const noWindow = { opensAtMs: NEVER_MS, closesAtMs: null };

/** Started, and not in the capacity queue. */
const holds = ({ notBeforeMs, waitsSinceMs }: Instance): boolean => notBeforeMs === null && waitsSinceMs === null;

const endOf: Parameters<StopAutomatically>[1] = (instance) =>
  instance.spec.chargeMode === 'tidePerHour' && holds(instance) ? { cause: 'OffPeakEnded' } : null;
