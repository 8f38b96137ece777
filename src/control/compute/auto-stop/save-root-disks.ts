/** Archives instances after a long stop: a prune of containers takes no root disk then. */
import { timedActs } from '../../../domain/compute/timed-acts.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { NEVER_MS } from '../../../domain/regions/off-peak.ts';
import { instanceFromRow, lockInstance } from '../../../store/tables/instances.ts';
import { writeAction } from '../instances/actions.ts';
import { refuseWithoutSaving, type ActHandler, type TaskDeps } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';

type SaveDeps = Pick<TaskDeps, 'store' | 'time' | 'log' | 'changes' | 'regions'> &
  Pick<MeteredDeps, 'readCatalog' | 'metering'> & {
    /** Stopped time until the archive; null: never. */
    saveRootDiskAfterMs: number | null;
  };

/** When the archive is refused, as by the quota of operations. */
const AGAIN_MS = 10 * 60_000;

export const makeSaveRootDisk =
  (deps: SaveDeps): ActHandler =>
  async ({ id, ownerId }) => {
    const { store, time, log, changes, metering, regions, saveRootDiskAfterMs: afterMs } = deps;
    const catalog = await deps.readCatalog();
    const archive = store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      const fromMs = row ? timedActs(instanceFromRow(row)).saveRootDisk : null;
      if (!row || fromMs === null) return null;
      if (afterMs === null) return NEVER_MS;
      const nowMs = time.now();
      if (nowMs < fromMs + afterMs) return fromMs + afterMs;
      refuseWithoutSaving(regions.of(row.regionId));
      await writeAction(tx, row, { action: 'archive', cause: 'LongStop', catalog, metering, nowMs });
      return null;
    });
    try {
      const next = await archive;
      if (next === null) changes.publish({ subject: 'instance', id, isDue: true });
      return next;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      log.debug({ id, err: error }, 'could not archive an instance that is stopped for long; Berth retries');
      return time.now() + AGAIN_MS;
    }
  };
