/** Starts instances with the option `resume` again, after the end of a window or a reclaim. */
import { NEVER_MS, nextWindow } from '../../../domain/regions/off-peak.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { resumesAfter } from '../../../domain/compute/resume.ts';
import { instanceFromRow, lockInstance } from '../../../store/tables/instances.ts';
import { writeAction } from '../instances/actions.ts';
import type { ActHandler, TaskDeps } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';

type ResumeDeps = Pick<TaskDeps, 'store' | 'time' | 'log' | 'changes' | 'regions'> &
  Pick<MeteredDeps, 'readCatalog' | 'metering' | 'spotGraceMs'>;

/** When a start is refused, as for a lack of money. */
const AGAIN_MS = 60_000;

export const makeResume =
  (deps: ResumeDeps): ActHandler =>
  async ({ id, ownerId }) => {
    const { store, time, log, changes, metering, spotGraceMs } = deps;
    const catalog = await deps.readCatalog();
    const start = store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      const instance = row && instanceFromRow(row);
      const after = instance && resumesAfter(instance);
      if (!row || !after) return null;
      const nowMs = time.now();
      const offPeak = catalog.regions.get(row.regionId)?.offPeak;
      const opensAtMs = (offPeak && nextWindow(offPeak, nowMs)?.opensAtMs) ?? NEVER_MS;
      if (after === 'OffPeakEnded' && opensAtMs > nowMs) return opensAtMs;
      const withoutGpu = instance.spec.cpuOnlyPriceMicros !== null;
      const bringUp = { drivers: deps.regions.of(row.regionId), withoutGpu };
      const when = { waitMs: Infinity, spotGraceMs, nowMs };
      await writeAction(tx, row, { action: 'start', cause: 'resume', catalog, metering, bringUp, ...when });
      return null;
    });
    try {
      const next = await start;
      if (next === null) changes.publish({ subject: 'instance', id, isDue: true });
      return next;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      log.debug({ id, err: error }, 'could not resume an instance; Berth retries in a minute');
      return time.now() + AGAIN_MS;
    }
  };
