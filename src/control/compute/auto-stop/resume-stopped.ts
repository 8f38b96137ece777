/** Starts instances with the option `resume` again, after the end of a window or a reclaim. */
import { isOffPeak } from '../../../domain/regions/off-peak.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { resumesAfter, type ResumableStop } from '../../../domain/compute/resume.ts';
import { offPeaks } from '../../../store/tables/catalog.ts';
import { instanceFromRow, lockInstance } from '../../../store/tables/instances.ts';
import { toResume, type Owned } from '../../../store/tables/tide-and-spot.ts';
import { writeAction } from '../instances/actions.ts';
import { type TaskDeps, eachFew } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';

type ResumeDeps = Pick<TaskDeps, 'store' | 'time' | 'log' | 'changes' | 'regions'> &
  Pick<MeteredDeps, 'readCatalog' | 'metering' | 'spotGraceMs'>;

const AT_ONCE = 200;
/** When a start is refused, as for a lack of money. */
const AGAIN_MS = 60_000;

export function makeResume(deps: ResumeDeps): () => Promise<void> {
  const { store, time, log, changes } = deps;
  const refusedUntilMs = new Map<string, number>();

  async function resumeAll(after: ResumableStop, regionId: string | null): Promise<void> {
    for (let afterId = ''; ;) {
      const rows = await toResume(store.read, { after, regionId, afterId, limit: AT_ONCE });
      await eachFew(rows, resume);
      const last = rows.at(-1);
      if (!last || rows.length < AT_ONCE) return;
      afterId = last.id;
    }
  }

  async function resume(owned: Owned): Promise<void> {
    const { id } = owned;
    if ((refusedUntilMs.get(id) ?? 0) > time.elapsed()) return;
    try {
      refusedUntilMs.delete(id);
      if (await start(owned)) changes.publish({ subject: 'instance', id, isDue: true });
    } catch (error) {
      refusedUntilMs.set(id, time.elapsed() + AGAIN_MS);
      const text = 'could not resume an instance; Berth retries in a minute';
      if (error instanceof Refusal) log.debug({ id, err: error }, text);
      else log.warn({ id, err: error }, text);
    }
  }

  async function start({ id, ownerId }: Owned): Promise<boolean> {
    const catalog = await deps.readCatalog();
    const { metering, spotGraceMs } = deps;
    return store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      const instance = row && instanceFromRow(row);
      if (!instance || resumesAfter(instance) === null) return false;
      const withoutGpu = instance.spec.cpuOnlyPriceMicros !== null;
      const bringUp = { drivers: deps.regions.of(row.regionId), withoutGpu };
      const when = { waitMs: Infinity, spotGraceMs, nowMs: time.now() };
      await writeAction(tx, row, { action: 'start', cause: 'resume', catalog, metering, bringUp, ...when });
      return true;
    });
  }

  return async () => {
    for (const [id, untilMs] of refusedUntilMs) if (untilMs <= time.elapsed()) refusedUntilMs.delete(id);
    await resumeAll('SpotReclaimed', null);
    for (const { id, offPeak } of await offPeaks(store.read))
      if (offPeak && isOffPeak(offPeak, time.now())) await resumeAll('OffPeakEnded', id);
  };
}
