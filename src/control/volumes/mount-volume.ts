/** Where a volume's files are on the host, for a request: mounted in the disk's turn, and not waited for longer than a caller would. */
import type { DiskId } from '../../domain/disk.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Volume } from '../../domain/volume.ts';
import { inTurn } from './disk-mutex.ts';
import type { LocatedDisk } from './disks.ts';
import type { Time } from '../base/time.ts';

/** A snapshot or a copy that has its turn before may take much longer. */
const WAITED_MS = 20_000;
const ASK_AGAIN_S = 5;

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
    const late = time.deadline(WAITED_MS);
    try {
      return await inTurn(storage, disk, () => storage.mount(disk), AbortSignal.any([signal, late]));
    } catch (error) {
      if (signal.aborted || !late.aborted) throw error;
      throw new Refusal('unavailable', `volume ${id} is being worked on; send it again when that has ended`, {
        retryAfterS: ASK_AGAIN_S,
      });
    }
  };
