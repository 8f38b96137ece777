/**
 * Finds disks that nothing written down explains: what a lost database, a backup from yesterday or a delete that was cut off left in a pool.
 * They are told to administrators, and never deleted by themselves: only when one says so.
 *
 * The storage is asked first and the store after it, and a disk's row outlives it: whatever is listed has its row by then. What is listed
 * while it goes is why a stray must be seen twice.
 */
import { diskKey, type DiskId } from '../../domain/disk.ts';
import type { PoolName } from '../../domain/pool.ts';
import { strayIdOf, type Stray } from '../../domain/stray.ts';
import { StorageFault } from '../../storage/contract.ts';
import { disksAmong, disksOfRegion } from '../../store/disks.ts';
import type { Db } from '../../store/store.ts';
import { forgetStrays, noteStray, straysOf, type Sighting } from '../../store/strays.ts';
import { inTurn } from '../disk-turns.ts';
import { raced } from '../raced.ts';
import type { PoolHands, RegionHands } from '../regions.ts';
import { within, type DeedNeeds } from './deeds.ts';
import { keepStrays } from './sweep.ts';

const LIST_DEADLINE_MS = 60_000;
const DELETE_DEADLINE_MS = 600_000;
const ROWS_AT_ONCE = 1_000;

interface DiskStray {
  pool: PoolHands;
  disk: DiskId;
}

const nameOf = ({ pool, disk }: DiskStray): string => `${pool.name}/${diskKey(disk)}`;

const strayId = (regionId: string, stray: DiskStray): string =>
  strayIdOf(regionId, { kind: 'disk', engineName: nameOf(stray) });

/** Throws when a storage can't tell all it holds, and nothing is changed. */
export async function sweepDisks(needs: DeedNeeds, hands: RegionHands): Promise<void> {
  const found = await unexplained(needs, hands);
  const sightings = found.map((stray) => sightingOf(hands.regionId, stray));
  const text = 'the storage holds disks that nothing explains; POST /admin/stray/list tells them';
  await keepStrays(needs, hands.regionId, { kinds: ['disk'], sightings, text });
}

async function unexplained(needs: DeedNeeds, { regionId, pools }: RegionHands): Promise<DiskStray[]> {
  const signal = within(needs, LIST_DEADLINE_MS);
  const all: DiskStray[] = [];
  for (const pool of pools) for (const disk of await raced(pool.storage.listOwned(), signal)) all.push({ pool, disk });
  const known = await poolsOfDisks(needs.store.read, regionId);
  return all.filter(({ pool, disk }) => known.get(diskKey(disk)) !== pool.name);
}

async function poolsOfDisks(db: Db, regionId: string): Promise<Map<string, PoolName>> {
  const known = new Map<string, PoolName>();
  for (let after = ''; ;) {
    const page = await disksOfRegion(db, regionId, after, ROWS_AT_ONCE);
    for (const disk of page) known.set(diskKey(disk), disk.pool);
    const last = page.at(-1);
    if (!last) return known;
    after = diskKey(last);
  }
}

const sightingOf = (regionId: string, stray: DiskStray): Sighting => ({
  id: strayId(regionId, stray),
  regionId,
  kind: 'disk',
  engineName: nameOf(stray),
  subjectId: stray.disk.id,
  ownerId: stray.disk.kind === 'shared' ? (stray.disk.id.split('/')[0] ?? '') : '',
  imageRef: '',
  generation: 0,
  running: false,
  createdAtMs: 0,
});

/** Deletes those that an administrator wants deleted. */
export async function deleteDiskStrays(needs: DeedNeeds, hands: RegionHands): Promise<void> {
  const strays = await straysOf(needs.store.read, hands.regionId);
  const wanted = new Map(
    strays.filter(({ kind, handling }) => kind === 'disk' && handling === 'delete').map((stray) => [stray.id, stray]),
  );
  if (wanted.size === 0) return;
  for (const one of await unexplained(needs, hands)) {
    const stray = wanted.get(strayId(hands.regionId, one));
    if (stray && !needs.ending.aborted) await deleteOne(needs, one, stray, strays);
  }
}

/** What fails is said in the list, and tried again after the next sweep. */
async function deleteOne(
  needs: DeedNeeds,
  { pool: { name, storage }, disk }: DiskStray,
  { id }: Stray,
  all: readonly Stray[],
): Promise<void> {
  const { store, log, ending } = needs;
  const signal = within(needs, DELETE_DEADLINE_MS);
  const note = (text: string): Promise<void> => store.write((tx) => noteStray(tx, id, text));
  if (all.some(({ kind, subjectId }) => (kind === 'instance' || kind === 'docker') && subjectId === disk.id))
    return note('its instance is a stray too: adopt that, or delete it first');
  const destroy = async (): Promise<boolean> => {
    // An adoption has explained it meanwhile.
    const [known] = await disksAmong(store.read, [disk]);
    if (known?.pool === name) return false;
    await storage.destroy(disk);
    return true;
  };
  try {
    if (!(await inTurn(storage, disk, destroy, signal))) return;
    await store.write((tx) => forgetStrays(tx, [id]));
    log.warn({ stray: id }, 'a disk that nothing explained was deleted');
  } catch (error) {
    if (ending.aborted) return;
    await note(error instanceof StorageFault ? error.message : 'it could not be deleted yet');
    log.warn({ stray: id, err: error }, 'nothing could be done with a stray yet; it is tried again');
  }
}
