/**
 * Measures volumes one after another, at a hundredth of the time at most, and sees which backing is gone or back. A measurement holds
 * neither a lease nor a slot of the loop: it waits behind nothing, and nothing behind it.
 */
import { moveVersion } from '../../store/events.ts';
import { makeVolumeDue, standingVolumes, writeUsage } from '../../store/volumes.ts';
import type { Volume } from '../../domain/volume.ts';
import { within, type DeedNeeds } from './deeds.ts';

const VOLUMES_AT_ONCE = 200;
const MEASURE_DEADLINE_MS = 600_000;
const SHARE_OF_TIME = 100;
const LONGEST_PAUSE_MS = 3_600_000;

export async function measureVolumes(needs: DeedNeeds): Promise<void> {
  for (let after = ''; !needs.ending.aborted;) {
    const volumes = await standingVolumes(needs.store.read, after, VOLUMES_AT_ONCE);
    const last = volumes.at(-1);
    if (!last) return;
    after = last.id;
    for (const volume of volumes) {
      const tookMs = await measure(needs, volume);
      const pauseMs = Math.min(LONGEST_PAUSE_MS, tookMs * SHARE_OF_TIME);
      await needs.time.sleep(pauseMs, needs.ending).catch(() => {});
      if (needs.ending.aborted) return;
    }
  }
}

/** Answers how long it took, in milliseconds. */
async function measure(needs: DeedNeeds, volume: Volume): Promise<number> {
  const { store, regions, now, time, wake } = needs;
  const beganMs = time.elapsed();
  const { storage } = regions.of(volume.regionId);
  const disk = { kind: 'volume', id: volume.id } as const;
  const seen = await storage.observe(disk);
  if (seen.kind !== 'unknown' && (seen.kind === 'absent') !== (volume.status === 'Lost')) {
    await store.write((tx) => makeVolumeDue(tx, volume.id, now()));
    wake();
  }
  if (seen.kind !== 'present') return 0;
  const usageBytes = await storage.usage(disk, within(needs, MEASURE_DEADLINE_MS));
  const tookMs = time.elapsed() - beganMs;
  if (usageBytes === null || usageBytes === volume.usageBytes) return tookMs;
  await store.write(async (tx) => {
    if (await writeUsage(tx, volume, usageBytes)) await moveVersion(tx, volume.ownerId);
  });
  return tookMs;
}
