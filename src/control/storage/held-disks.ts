/** Disks that could not be removed because processes of the host hold them, as last observed. */
import { diskKey, type Disk, type DiskId } from '../../domain/storage/disk.ts';
import type { HostProcess } from '../../storage/contract.ts';
import { StorageFault } from '../../storage/contract.ts';
import { findDisks } from './disks.ts';
import type { UseCaseDeps } from '../kernel/ports.ts';

export interface HeldDisk extends Pick<Disk, 'kind' | 'id' | 'regionId' | 'ownerId' | 'pool' | 'sizeGB'> {
  /** First failure since the server started. */
  since: number;
  processes: HostProcess[];
}

export interface HeldDisks {
  /** Runs the removal of a disk; a `busy` fault lists the disk until a removal succeeds. */
  watch<T>(disk: DiskId, remove: () => Promise<T>): Promise<T>;
  /** Disks that still exist, with the processes that hold them. */
  list(): Promise<HeldDisk[]>;
}

export function makeHeldDisks({ store, time }: Pick<UseCaseDeps, 'store' | 'time'>): HeldDisks {
  const held = new Map<string, DiskId & Pick<HeldDisk, 'since' | 'processes'>>();
  return {
    async watch({ kind, id }, remove) {
      const key = diskKey({ kind, id });
      try {
        const result = await remove();
        held.delete(key);
        return result;
      } catch (error) {
        if (error instanceof StorageFault && error.kind === 'busy')
          held.set(key, { kind, id, since: held.get(key)?.since ?? time.now(), processes: [...error.users] });
        throw error;
      }
    },
    async list() {
      const disks = await findDisks(store.read, [...held.values()]);
      return disks.flatMap(({ kind, id, regionId, ownerId, pool, sizeGB }) => {
        const found = held.get(diskKey({ kind, id }));
        if (!found) return [];
        return [{ kind, id, regionId, ownerId, pool, sizeGB, since: found.since, processes: found.processes }];
      });
    },
  };
}
