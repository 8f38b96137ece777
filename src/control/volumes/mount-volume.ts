import type { DiskId } from '../../domain/disk.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Volume } from '../../domain/volume.ts';
import { withDiskMutex } from './disk-mutex.ts';
import type { LocatedDisk } from './disks.ts';
import type { Time } from '../base/time.ts';

/** A snapshot or a copy that holds the disk's mutex may take much longer. */
const MUTEX_DEADLINE_MS = 20_000;
const RETRY_AFTER_S = 5;

export type MountVolume = (volume: Pick<Volume, 'id' | 'regionId'>, signal: AbortSignal) => Promise<string>;

export interface MountVolumeDeps {
  locate: (volume: Pick<Volume, 'id' | 'regionId'>) => Promise<DiskId & Pick<LocatedDisk, 'storage'>>;
  time: Pick<Time, 'deadline'>;
}

export const makeMountVolume =
  ({ locate, time }: MountVolumeDeps): MountVolume =>
  async (volume, signal) => {
    const disk = await locate(volume);
    const { id, storage } = disk;
    const deadline = time.deadline(MUTEX_DEADLINE_MS);
    try {
      return await withDiskMutex(storage, disk, () => storage.mount(disk), AbortSignal.any([signal, deadline]));
    } catch (error) {
      if (signal.aborted || !deadline.aborted) throw error;
      throw new Refusal('unavailable', `volume ${id} is being worked on; send it again when that has ended`, {
        retryAfterS: RETRY_AFTER_S,
      });
    }
  };
