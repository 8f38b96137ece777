/** The disk of a row that passes tend, a volume's or a snapshot's: found, made and removed in its turn, and what a storage's refusal comes to. */
import type { DiskId } from '../../domain/disk.ts';
import type { RegionId } from '../../domain/ids.ts';
import { StorageFault } from '../../storage/contract.ts';
import type { Store } from '../../store/store.ts';
import { inTurn } from '../disk-turns.ts';
import { located, type Located } from '../disks.ts';
import type { Tended } from '../loop.ts';
import type { Regions } from '../regions.ts';

/** When one that can't be seen is asked for again. */
export const ASK_AGAIN_MS = 5_000;
/** When one that somebody still uses is looked at again. */
export const STILL_USED_MS = 1_000;

export interface Why {
  reason: string;
  message: string;
}

/** Tends it, or ends the row whose disk is gone. Of one that could not be made nothing is left, and nothing is to be done. */
export async function onDiskOf(
  { store, regions }: { store: Store; regions: Regions },
  { regionId, status, ...id }: DiskId & { regionId: RegionId; status: string },
  { tend, forget }: { tend: (disk: Located) => Promise<Tended>; forget: () => Promise<Tended> },
): Promise<Tended> {
  const [disk] = await located(store.read, regions.of(regionId), [id]);
  if (disk) return tend(disk);
  if (status === 'Terminating') return forget();
  if (status === 'Failed') return { dueAtMs: null };
  throw new Error(`nothing is written down of the disk of ${id.kind} ${id.id}`);
}

/** Null once it is made; else why it can't be as it was wished, however often it is tried. Throws for what may pass by itself. */
export async function make(disk: Located, sizeGB: number, signal: AbortSignal, from?: DiskId): Promise<Why | null> {
  try {
    await inTurn(disk.storage, disk, () => disk.storage.create(disk, sizeGB, signal, from), signal);
    return null;
  } catch (error) {
    signal.throwIfAborted();
    const why = whyNever(error);
    if (why === null) throw error;
    return why;
  }
}

/** False while somebody uses it. */
export async function remove(disk: Located, signal: AbortSignal): Promise<boolean> {
  try {
    await inTurn(disk.storage, disk, () => disk.storage.destroy(disk), signal);
    return true;
  } catch (error) {
    if (error instanceof StorageFault && error.kind === 'busy') return false;
    throw error;
  }
}

function whyNever(error: unknown): Why | null {
  if (!(error instanceof StorageFault)) return null;
  const { kind, message } = error;
  switch (kind) {
    case 'full':
      return { reason: 'StorageFull', message };
    case 'notFound':
      return { reason: 'SourceGone', message };
    case 'unsupported':
      return { reason: 'Unsupported', message };
    case 'busy':
      return null;
    default:
      return kind satisfies never;
  }
}
