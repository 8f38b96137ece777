/**
 * Rewrites the public texts of a region's instances after a change of the region's facts or of the
 * texts' shape. A reconcile under way may write old facts once more, so a rewrite is complete only
 * when a later run has compared all texts again; a crash before starts over.
 */
import type { Region } from '../../domain/regions/catalog.ts';
import { PUBLIC_OBJECT_VERSION } from '../../domain/compute/public-instance.ts';
import { regionsWithUsage, saveSetting, setting } from '../../store/tables/catalog.ts';
import { bumpVersion } from '../../store/tables/events.ts';
import { instanceRowsOfRegion } from '../../store/tables/instance-queries.ts';
import { publicTextOf, refreshPublicText } from '../../store/tables/instances.ts';
import type { Store } from '../../store/store.ts';
import type { TaskDeps } from '../kernel/ports.ts';

/** Bounds how long one write blocks others: 500 texts took 200 to 450 ms. */
const TEXTS_PER_WRITE = 50;

/** Setting that says that all texts of the region have these facts. */
export const settingOfTexts = (region: Region) => ({
  name: `texts.${region.id}`,
  current: JSON.stringify({ shape: PUBLIC_OBJECT_VERSION, region }),
});

/** Returns the task. */
export function makeRegionTexts({ store, stopping }: Pick<TaskDeps, 'store' | 'stopping'>): () => Promise<void> {
  const rewritten = new Map<string, string>();
  return async () => {
    for (const { region } of await regionsWithUsage(store.read)) {
      const { name, current } = settingOfTexts(region);
      if ((await setting(store.read, name)) === current) continue;
      await rewriteTexts(store, region, stopping);
      if (stopping.aborted) return;
      if (rewritten.get(region.id) === current) await store.write((tx) => saveSetting(tx, name, current));
      rewritten.set(region.id, current);
    }
  };
}

/** Lists are served meanwhile: a migration must leave texts that honor the contract. */
async function rewriteTexts(store: Store, region: Region, signal: AbortSignal): Promise<void> {
  for (let after = ''; ;) {
    if (signal.aborted) return;
    const rows = await instanceRowsOfRegion(store.read, region.id, after, TEXTS_PER_WRITE);
    const last = rows.at(-1);
    if (!last) return;
    after = last.id;
    const stale = rows.filter((row) => publicTextOf(row, region) !== row.publicText);
    if (stale.length === 0) continue;
    await store.write(async (tx) => {
      const owners = new Set<string>();
      for (const row of stale) if (await refreshPublicText(tx, row, region)) owners.add(row.ownerId);
      for (const ownerId of [...owners].toSorted()) await bumpVersion(tx, ownerId);
    });
  }
}
