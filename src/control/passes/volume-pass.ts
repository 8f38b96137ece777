/** The pass of one volume: its backing is made, looked after, or removed once no container mounts it any more. */
import { endOperation } from '../../domain/operation.ts';
import { planVolume, type Volume, type VolumeObservation } from '../../domain/volume.ts';
import { appendEvent } from '../../store/events.ts';
import { makeMountersDue } from '../../store/instances.ts';
import type { Store } from '../../store/store.ts';
import { deleteVolumeRow, mountersOf, volumeFromRow, writeVolumeFound, type VolumeRow } from '../../store/volumes.ts';
import type { Held, Tended } from '../loop.ts';
import { inTurn } from '../disk-turns.ts';
import { raced } from '../raced.ts';
import type { Regions } from '../regions.ts';

export interface VolumePassNeeds {
  store: Store;
  regions: Regions;
  now: () => number;
  /** Wakes the instances that wait for a volume. */
  wakeInstances: () => void;
}

const STILL_MOUNTED_MS = 1_000;
const ASK_AGAIN_MS = 5_000;

export function makeVolumePass(needs: VolumePassNeeds) {
  return async (held: Held<VolumeRow>): Promise<Tended> => {
    const { store, now } = needs;
    const { storage } = needs.regions.of(held.row.regionId);
    let volume = volumeFromRow(held.row);
    const disk = { kind: 'volume', id: volume.id } as const;
    const hold = { id: volume.id, leaseToken: held.leaseToken, generation: volume.generation };
    for (;;) {
      held.signal.throwIfAborted();
      const seen: VolumeObservation = await raced(storage.observe(disk), held.signal);
      const step = planVolume(volume, seen);
      switch (step.do) {
        case 'rest':
          return { dueAtMs: seen.kind === 'unknown' ? now() + ASK_AGAIN_MS : null };
        case 'create':
          await inTurn(storage, disk, () => storage.create(disk, volume.sizeGB), held.signal);
          break;
        case 'destroy':
          if ((await mountersOf(store.read, volume.id)).length > 0) return { dueAtMs: now() + STILL_MOUNTED_MS };
          await inTurn(storage, disk, () => storage.destroy(disk), held.signal);
          break;
        case 'forget': {
          const gone = await store.write(async (tx) => {
            if (!(await deleteVolumeRow(tx, hold, volume, now()))) return false;
            const { ownerId: accountId, id: subjectId } = volume;
            await appendEvent(tx, { accountId, atMs: now(), kind: 'volume.removed', subjectId, data: {} });
            return true;
          });
          return gone ? 'gone' : { dueAtMs: now() };
        }
        case 'mark': {
          const operation = endOperation(volume.operation, 'Succeeded', now());
          const next: Volume = { ...volume, status: step.status, operation };
          const ours = await store.write(async (tx) => {
            if (!(await writeVolumeFound(tx, hold, next))) return false;
            const { ownerId: accountId, id: subjectId } = volume;
            await makeMountersDue(tx, subjectId, now());
            const data = { status: next.status };
            await appendEvent(tx, { accountId, atMs: now(), kind: 'volume.observed', subjectId, data });
            return true;
          });
          if (!ours) return { dueAtMs: now() };
          needs.wakeInstances();
          volume = next;
          break;
        }
        default:
          return step satisfies never;
      }
    }
  };
}
