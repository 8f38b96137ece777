/**
 * Unmounts disks that nobody needs on the host any more: whose instances have come to rest, and what a kill left mounted. It takes no input
 * and looks at what is mounted; that somebody works in one leaves it for the next time.
 */
import { diskKey, type DiskId } from '../../domain/disk.ts';
import { StorageFault } from '../../storage/contract.ts';
import { neededAmong } from '../../store/disk-users.ts';
import { inTurn } from '../disk-turns.ts';
import { raced } from '../raced.ts';
import type { PoolHands } from '../regions.ts';
import { within, type DeedNeeds } from './deeds.ts';

const LIST_DEADLINE_MS = 10_000;
const UNMOUNT_DEADLINE_MS = 60_000;

export interface UnmountNeeds extends DeedNeeds {
  /** Whether Berth itself works in it just now. */
  inUse: (disk: DiskId) => boolean;
}

export async function unmountUnneeded(needs: UnmountNeeds): Promise<void> {
  for (const { pools } of needs.regions.all()) for (const pool of pools) await unmountIn(needs, pool);
}

async function unmountIn(needs: UnmountNeeds, { storage }: PoolHands): Promise<void> {
  const mounted = await raced(storage.listMounted(), within(needs, LIST_DEADLINE_MS));
  const needed = await neededAmong(needs.store.read, mounted);
  for (const disk of mounted) {
    if (needs.ending.aborted) return;
    if (needed.has(diskKey(disk)) || needs.inUse(disk)) continue;
    const signal = within(needs, UNMOUNT_DEADLINE_MS);
    try {
      await inTurn(storage, disk, () => unmount(needs, storage, disk), signal);
    } catch (error) {
      if (needs.ending.aborted || (error instanceof StorageFault && error.kind === 'busy')) continue;
      needs.log.warn({ disk: diskKey(disk), err: error }, 'a disk could not be unmounted; it is tried again');
    }
  }
}

/** Asked once more in its turn: who needs it by then has written that down before, and mounts it after. */
async function unmount({ store, inUse }: UnmountNeeds, storage: PoolHands['storage'], disk: DiskId): Promise<void> {
  if ((await neededAmong(store.read, [disk])).size > 0 || inUse(disk)) return;
  await storage.unmount(disk);
}
